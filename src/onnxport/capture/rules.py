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
        if kind == "aten::size" and len(given) == 2 and given[0].node().kind() == "prim::Param":
            return _size(given[0].unique(), _number(given[1].toIValue()))
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


def applied(function: Callable[..., Any], *rules: Rule) -> Rule:
    """The rule of what a function makes of other numbers; None where it fails or one of them is unknown."""

    def rule(shapes: Sequence[Sequence[int]]) -> Number | None:
        numbers = [inner(shapes) for inner in rules]
        if any(number is None for number in numbers):
            return None
        try:
            return _number(function(*numbers))
        except (ArithmeticError, LookupError, ValueError, TypeError):
            return None

    return rule


def _size(index: int, dim: Any) -> Rule:
    return lambda shapes: shapes[index][dim] if index < len(shapes) and isinstance(dim, int) else None


def _number(content: Any) -> Number | None:
    if isinstance(content, torch.Tensor):
        content = content.item() if content.numel() == 1 else None
    return content if isinstance(content, (int, float)) else None
