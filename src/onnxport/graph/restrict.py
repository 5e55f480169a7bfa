"""Removes some of the evaluation points from a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onnxport.graph.ir import NUMBER, Graph, TensorType, Value
from onnxport.graph.sizes import Size, SizeExpr
from onnxport.graph.sizes.expr import in_order, restricted


def restrict(graph: Graph, points: Sequence[int]) -> bool:
    """Keep only these points; False, with the graph unchanged, if that would not be valid.

    It is not valid if sizes that differ only at the removed points would become equal or constant, nor if sizes follow
    from more than axes: their values at the points are guesses that belong together.
    """
    values = list(_values(graph))
    sizes = {id(size): size for value in values for size in _sizes(value)}
    if not _stay_apart(sizes.values(), points):
        return False
    made: dict[int, SizeExpr] = {}

    def fewer(part: Any) -> Any:
        if isinstance(part, SizeExpr):
            return restricted(part, points, made)
        return tuple(map(fewer, part)) if isinstance(part, tuple) else part

    for value in values:
        if isinstance(value.type, TensorType):
            value.type = TensorType(value.type.dtype, fewer(value.type.shape))
        value.size = fewer(value.size)
    for node in graph.block.all_nodes():
        if node.op == NUMBER:
            node.inputs = {name: fewer(argument) for name, argument in node.inputs.items()}
    graph.captures = len(points)
    return True


def _stay_apart(sizes: Iterable[SizeExpr], points: Sequence[int]) -> bool:
    """Whether sizes follow from axes, still vary at these points, and are equal there only if they are equal anyway."""
    found: dict[Any, SizeExpr] = {}
    for size in sizes:
        at = tuple([size.at[point] for point in points])
        if at.count(at[0]) == len(at) or found.setdefault(at, size) != size:
            return False
        if any(part.is_leaf and part.op != "axis" for part in in_order(size)):
            return False
    return True


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.block.inputs
    for node in graph.block.all_nodes():
        yield from node.outputs
        for block in node.blocks:
            yield from block.inputs


def _sizes(value: Value) -> Iterator[SizeExpr]:
    sizes: tuple[Size | None, ...] = (value.size, *(value.type.shape if isinstance(value.type, TensorType) else ()))
    return (size for size in sizes if isinstance(size, SizeExpr))
