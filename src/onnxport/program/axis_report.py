"""The report's tables: the sizes at which each dynamic axis was recorded and verified, and numbers from sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnxport.graph.ir import NUMBER, Graph, Node
from onnxport.graph.sizes import SizeExpr
from onnxport.lower.naming import DimNames
from onnxport.report.report import AxisSizes, RepairedNumber


def axis_sizes(
    axes: Iterable[tuple[str, Sequence[tuple[int, int]]]],
    input_names: Sequence[str],
    traced: Sequence[Mapping[str, int]],
    verified: Sequence[Mapping[str, int]],
) -> list[AxisSizes]:
    """One row per axis. Each axis is a label and its dimensions: pairs of an input and a dimension."""
    return [
        AxisSizes(
            label,
            tuple(f"{input_names[index]}[{dim}]" for index, dim in input_dims),
            _sizes(label, traced),
            _sizes(label, verified),
        )
        for label, input_dims in axes
    ]


def _sizes(label: str, points: Sequence[Mapping[str, int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(point[label] for point in points if label in point))


def repaired_numbers(graph: Graph) -> list[RepairedNumber]:
    """The used numbers of the graph that Python computed from sizes, one per source line."""
    numbers = list(_computed(graph))
    read = set(graph.block.outer_values()) if numbers else set()
    names = DimNames(graph)
    return list(dict.fromkeys(_repaired(graph, node, names) for node in numbers if node.outputs[0] in read))


def _computed(graph: Graph) -> Iterator[Node]:
    """The nodes of numbers that are computed, not read from the shape of a value."""
    sizes = {size for value in graph.block.inputs if value.is_tensor for size in value.shape}
    for node in graph.block.all_nodes():
        if node.op == NUMBER and not node.inputs["expression"].is_leaf and node.inputs["expression"] not in sizes:
            yield node
        sizes.update(size for value in node.outputs if value.is_tensor for size in value.shape)


def _repaired(graph: Graph, node: Node, names: DimNames) -> RepairedNumber:
    expression: SizeExpr = node.inputs["expression"]
    return RepairedNumber(node.location, graph.scope_name(node.scope), expression.at[:1], names.name(expression))
