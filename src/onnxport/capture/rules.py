"""How a traced number follows from the inputs' sizes: evaluated at sizes that were not traced, without the model."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

Number: TypeAlias = "int | float"
# The shapes of the inputs to a number; None where it does not follow from them.
Rule: TypeAlias = "Callable[[Sequence[Sequence[int]]], Number | None]"

PASSED_ON = frozenset(
    {
        "prim::NumToTensor",
        "aten::Int",
        "aten::Float",
        "aten::ScalarImplicit",
        "aten::IntImplicit",
        "aten::FloatImplicit",
        "aten::to",
        "aten::detach",
        "aten::clone",
        "aten::lift_fresh",
    }
)
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::rsub": lambda left, right: right - left,
    "aten::mul": operator.mul,
    "aten::floor_divide": operator.floordiv,
    "aten::floordiv": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::pow": operator.pow,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::minimum": min,
    "aten::maximum": max,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "aten::neg": operator.neg,
    "aten::floor": math.floor,
    "aten::ceil": math.ceil,
    "aten::sqrt": math.sqrt,
}
DEEPEST = 40


def constant(number: Number | None) -> Rule:
    return lambda shapes: number


UNKNOWN = constant(None)


class Rules:
    """The rules of the values of one trace, read while it is made: the tracer drops what nothing depends on."""

    def __init__(self) -> None:
        self._known: dict[int, Rule] = {}

    def of(self, value: Any, depth: int = 0) -> Rule:
        key = value.unique()
        if key not in self._known:
            self._known[key] = self._read(value, depth + 1) if depth <= DEEPEST else UNKNOWN
        return self._known[key]

    def _read(self, value: Any, depth: int) -> Rule:
        node = value.node()
        kind = node.kind()
        given = list(node.inputs())
        if kind == "prim::Constant":
            return constant(_number(value.toIValue()))
        if kind == "aten::size" and len(given) == 2:
            return self.of_size(given[0], _number(given[1].toIValue()), depth)
        if kind in PASSED_ON:
            return self.of(given[0], depth)
        if kind in UNARY:
            return applied(UNARY[kind], self.of(given[0], depth))
        if kind in BINARY:
            return applied(BINARY[kind], *(self.of(side, depth) for side in given[:2]))
        if kind == "aten::div":
            function = operator.floordiv if len(given) > 2 and given[2].toIValue() == "floor" else operator.truediv
            return applied(function, *(self.of(side, depth) for side in given[:2]))
        return UNKNOWN

    def of_size(self, value: Any, dim: Any, depth: int = 0) -> Rule:
        """The rule of one size of a tensor: of an input, or of what was taken from one without computing."""
        node = value.node()
        kind, rank = node.kind(), len(value.type().sizes() or ())
        if not isinstance(dim, int) or depth > DEEPEST or not rank:
            return UNKNOWN
        dim %= rank
        if kind == "prim::Param":
            return _size(value.unique(), dim)
        given = [node.inputsAt(place) for place in range(node.inputsSize())]
        if not given or any(entry.node().kind() != "prim::Constant" for entry in given[1:]):
            return UNKNOWN
        how: list[Any] = [entry.toIValue() for entry in given[1:]]
        if kind == "aten::slice" and how[0] % rank == dim:
            return applied(lambda size: len(range(size)[slice(*how[1:])]), self.of_size(given[0], dim, depth + 1))
        before = VIEWS[kind](dim, rank, how) if kind in VIEWS else None
        return UNKNOWN if before is None else self.of_size(given[0], before, depth + 1)


def _swapped(dim: int, left: int, right: int) -> int:
    return right if dim == left else left if dim == right else dim


# Which dimension of what an operator is given has the size of a dimension of its result.
VIEWS: dict[str, Callable[[int, int, list[Any]], int]] = {
    "aten::select": lambda dim, rank, how: dim + (dim >= how[0] % (rank + 1)),
    "aten::slice": lambda dim, rank, how: dim,
    "aten::transpose": lambda dim, rank, how: _swapped(dim, how[0] % rank, how[1] % rank),
    **dict.fromkeys(("aten::to", "aten::detach", "aten::clone", "aten::contiguous"), lambda dim, rank, how: dim),
}


def applied(function: Callable[..., Any], *rules: Rule) -> Rule:
    """The rule of what a function makes of other numbers; None where it fails or one of them is unknown."""

    def rule(shapes: Sequence[Sequence[int]]) -> Number | None:
        numbers = [inner(shapes) for inner in rules]
        if any(number is None for number in numbers):
            return None
        try:
            return _number(function(*numbers))
        except (ArithmeticError, AttributeError, LookupError, ValueError, TypeError):
            return None

    return rule


def _size(index: int, dim: Any) -> Rule:
    return lambda shapes: shapes[index][dim] if index < len(shapes) and isinstance(dim, int) else None


def _number(content: Any) -> Number | None:
    if isinstance(content, torch.Tensor):
        content = content.item() if content.numel() == 1 else None
    return content if isinstance(content, (int, float)) else None
