"""Where one size was on the same side of another at every capture, and the model may do otherwise on the other side.

``x[:10]`` is all of ``x`` at 4 and at 9, ``n // 8`` is 0 at both: a capture at a larger size shows what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from onnxport.graph.dims import Dim, Size, values
from onnxport.graph.ir import Argument, Node, Source, Value

ORDERS = frozenset(f"aten::{name}" for name in ("minimum", "maximum", "min", "max", "clamp", "clamp_min", "clamp_max"))
DIVISIONS = frozenset({"aten::floor_divide", "aten::floordiv", "aten::div"})
END = 2**31


@dataclass(frozen=True)
class Doubt:
    """Two sizes whose order, or equality, something depends on."""

    left: Size
    right: Size
    equality: bool = False
    source: Source | None = None

    def wanted(self, captures: int) -> int | None:
        """The difference ``left - right`` that a further capture should have; None if those at hand tell enough."""
        pairs = zip(values(self.left, captures), values(self.right, captures), strict=True)
        differences = [left - right for left, right in pairs]
        if self.equality:
            return None if 0 in differences else 0
        if not any(differences) or (min(differences) < 0 < max(differences)):
            return None
        return 1 if min(differences) < 0 else -1


def ordered_sizes(node: Node, numbers: tuple[Any, ...] | None) -> Iterator[tuple[Size, Size]]:
    """The pairs of sizes whose order the node's result depends on.

    ``numbers`` is what it yields in each capture, if it computes with sizes only.
    """
    return (pair for pair in _pairs(node, numbers) if any(isinstance(size, Dim) for size in pair))


def _pairs(node: Node, numbers: tuple[Any, ...] | None) -> Iterator[tuple[Size, Size]]:
    if node.op == "aten::slice":
        yield from _cuts(node)
    elif node.op in ("aten::diagonal", "aten::diag"):
        shape = node.inputs["self"].shape
        if len(shape) > 1:
            yield shape[node.inputs.get("dim1", 0)], shape[node.inputs.get("dim2", 1)]
    elif numbers is not None and node.op in ORDERS | DIVISIONS:
        left, *others = (_size(argument) for argument in node.inputs.values())
        for right in others:
            if left is None or right is None:
                continue
            if node.op in ORDERS:
                yield left, right
            elif isinstance(right, int) and isinstance(numbers[0], int) and len(set(numbers)) == 1:
                yield left, right * (numbers[0] + 1)


def _cuts(node: Node) -> Iterator[tuple[Size, Size]]:
    """The length that is sliced and each bound that some length does not reach."""
    length = node.inputs["self"].shape[node.inputs["dim"]]
    if not isinstance(length, Dim):
        return
    for name in ("start", "end"):
        bound = _size(node.inputs.get(name))
        if isinstance(bound, int) and 1 < abs(bound) < END:
            yield length, abs(bound)
        elif isinstance(bound, Dim):
            yield length, bound


def _size(argument: Argument) -> Size | None:
    if isinstance(argument, Value):
        return argument.size
    return argument if type(argument) is int else None
