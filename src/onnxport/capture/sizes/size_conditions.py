"""Comparisons of sizes that had the same outcome at every point so far.

``x[:10]`` is all of ``x`` at 4 and at 9, ``n // 8`` is 0 at both, ``n % 7 == 0`` holds at neither. Only reading the
program at another size shows the other outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxport.graph.functionalize.views import squeezed_sizes
from onnxport.graph.ir import Argument, Node, Source, Value
from onnxport.graph.sizes import Size, SizeExpr, size, values

ORDERS = frozenset(f"aten::{name}" for name in ("minimum", "maximum", "min", "max", "clamp", "clamp_min", "clamp_max"))
ORDERS |= {"prim::min", "prim::max"}
DIVISIONS = frozenset({"aten::floor_divide", "aten::floordiv", "aten::div"})
END = 2**31

# The outcome of a relation for its two operands: "order" says which is larger, the others are true or false.
RELATIONS: Mapping[str, Callable[[int, int], int]] = {
    "order": lambda left, right: (left > right) - (left < right),
    "equal": lambda left, right: left == right,
    "squeezed": lambda left, right: left == right,
    "above": lambda left, right: left > right,
    "at least": lambda left, right: left >= right,
    "multiple": lambda left, right: left % right == 0,
    "quotient": lambda left, right: left // right,
    "entry": lambda left, right: left,
}
# The distances from the right operand to the left one that give each outcome. Equality comes last where it may make no
# difference, as for min(n, 4) at 4.
NEAREST: Mapping[str, Mapping[int, Sequence[int]]] = {
    "order": {-1: [-1], 1: [1]},
    "equal": {1: [0]},
    "squeezed": {1: [0]},
    "above": {0: [-1, 0], 1: [1]},
    "at least": {0: [-1], 1: [1, 0]},
}
# The relation that decides each comparison.
COMPARED = {
    "eq": "equal", "ne": "equal", "not_equal": "equal", "gt": "above", "greater": "above", "le": "above",
    "less_equal": "above", "lt": "at least", "less": "at least", "ge": "at least", "greater_equal": "at least",
}  # fmt: skip


@dataclass(frozen=True)
class SizeCondition:
    """Two sizes whose relation decides a result."""

    left: Size
    right: Size
    relation: str = "order"
    source: Source | None = None

    @property
    def captures(self) -> int:
        """The number of points at which the sizes are known."""
        return next((len(size.at) for size in (self.left, self.right) if isinstance(size, SizeExpr)), 1)

    def missing(self) -> list[int]:
        """The outcomes that no point had and that a further point should have."""
        pairs = zip(values(self.left, self.captures), values(self.right, self.captures), strict=True)
        outcomes = {RELATIONS[self.relation](left, right) for left, right in pairs}
        if outcomes == {0} and self.relation == "order":
            return []
        return [outcome for outcome in NEAREST[self.relation] if outcome not in outcomes]

    def moves(self, left: int, right: int, outcome: int) -> Iterator[list[tuple[Size, int]]]:
        """The sizes to change for an outcome, and to which number each; the most informative first."""
        for distance in NEAREST[self.relation][outcome]:
            yield [(self.left, right + distance), (self.right, left - distance)]


def compared_sizes(node: Node, numbers: tuple[Any, ...] | None) -> Iterator[tuple[Size, Size, str]]:
    """The pairs of sizes whose relation decides the node's result.

    ``numbers`` are its results at the points, if it computes with sizes only.
    """
    return (pair for pair in _pairs(node, numbers) if any(isinstance(size, SizeExpr) for size in pair[:2]))


def _pairs(node: Node, numbers: tuple[Any, ...] | None) -> Iterator[tuple[Size, Size, str]]:
    if node.op == "aten::slice":
        yield from _cuts(node)
    elif node.op in ("aten::squeeze", "aten::squeeze_"):
        yield from ((length, 1, "squeezed") for length in squeezed_sizes(node))
    elif node.op in ("aten::diagonal", "aten::diag"):
        shape = node.inputs["self"].shape
        if len(shape) > 1:
            yield shape[node.inputs.get("dim1", 0)], shape[node.inputs.get("dim2", 1)], "order"
    elif numbers is not None and node.op in ORDERS | DIVISIONS:
        left, *others = (_size(argument) for argument in node.inputs.values())
        for right in others:
            if left is None or right is None:
                continue
            if node.op in ORDERS:
                yield left, right, "order"
            elif isinstance(numbers[0], int) and len(set(numbers)) == 1:
                yield left, size(length * (numbers[0] + 1) for length in values(right, len(numbers))), "order"
    elif numbers is not None and node.op.removeprefix("aten::") in COMPARED and len(set(numbers)) == 1:
        left, right = (_size(argument) for argument in list(node.inputs.values())[:2])
        if left is not None and right is not None:
            yield left, right, COMPARED[node.op.removeprefix("aten::")]


def _cuts(node: Node) -> Iterator[tuple[Size, Size, str]]:
    """The size of a sliced axis with each bound that it may not reach."""
    dim = node.inputs["dim"]
    length = node.inputs["self"].shape[dim] if isinstance(dim, int) else None
    if not isinstance(length, SizeExpr):
        return
    for name in ("start", "end"):
        bound = _size(node.inputs.get(name))
        if isinstance(bound, int) and 1 < abs(bound) < END:
            yield length, abs(bound), "order"
        elif isinstance(bound, SizeExpr):
            yield length, bound, "order"


def _size(argument: Argument) -> Size | None:
    if isinstance(argument, Value):
        return argument.size
    return argument if type(argument) is int else None
