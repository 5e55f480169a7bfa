"""The report's tables: where each dynamic axis was recorded and verified, and numbers computed from sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnxport.graph.ir import NUMBER, Graph, Node
from onnxport.graph.sizes import SizeExpr
from onnxport.lower.naming import DimNames


@dataclass(frozen=True)
class AxisSizes:
    """A dynamic axis: the dimensions that carry its label (``x[0]``), and its sizes wherever the model ran."""

    label: str
    places: tuple[str, ...]
    traced: tuple[int, ...]
    verified: tuple[int, ...]


@dataclass(frozen=True)
class RepairedNumber:
    """A number that Python computed from sizes and that the file computes again.

    ``values`` has what it was in the run that was recorded. ``expression`` is how it follows from the axes; None where
    it follows from sizes that depend on data, or is too long to read.
    """

    location: str | None
    module: str
    values: tuple[int | float, ...]
    expression: str | None

    def __str__(self) -> str:
        values = ", ".join(f"{value:g}" for value in self.values)
        how = f" = {self.expression}" if self.expression else ""
        return f"{self.location or self.module or 'the model'}: {values}{how}"


def axis_sizes(
    axes: Iterable[tuple[str, Sequence[tuple[int, int]]]],
    input_names: Sequence[str],
    traced: Sequence[Mapping[str, int]],
    verified: Sequence[Mapping[str, int]],
) -> list[AxisSizes]:
    """One row per axis, which is given as its label and places: pairs of an input and a dimension."""
    return [
        AxisSizes(
            label,
            tuple(f"{input_names[index]}[{dim}]" for index, dim in places),
            _sizes(label, traced),
            _sizes(label, verified),
        )
        for label, places in axes
    ]


def _sizes(label: str, points: Sequence[Mapping[str, int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(point[label] for point in points if label in point))


def repaired_numbers(graph: Graph) -> list[RepairedNumber]:
    """The numbers of the graph that Python computed from sizes and that something reads, each line's once."""
    numbers = list(_computed(graph))
    read = set(graph.block.outer_values()) if numbers else set()
    names = DimNames(graph)
    return list(dict.fromkeys(_repaired(graph, node, names) for node in numbers if node.outputs[0] in read))


def _computed(graph: Graph) -> Iterator[Node]:
    """The nodes of numbers that are not the size of some value before them, which is only read."""
    sizes = {size for value in graph.block.inputs if value.is_tensor for size in value.shape}
    for node in graph.block.all_nodes():
        if node.op == NUMBER and not node.inputs["expression"].is_leaf and node.inputs["expression"] not in sizes:
            yield node
        sizes.update(size for value in node.outputs if value.is_tensor for size in value.shape)


def _repaired(graph: Graph, node: Node, names: DimNames) -> RepairedNumber:
    expression: SizeExpr = node.inputs["expression"]
    source = str(node.source) if node.source else None
    return RepairedNumber(source, graph.scope_name(node.scope), expression.at[:1], names.name(expression))


def table(axes: Sequence[AxisSizes], repaired: Sequence[RepairedNumber]) -> list[str]:
    """Both, as lines of text."""
    if not axes:
        return []
    rows = [("axis", "of", "traced at", "verified at")]
    rows += [(axis.label, ", ".join(axis.places), _listed(axis.traced), _listed(axis.verified)) for axis in axes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if repaired:
        lines += ["numbers that Python computed from sizes, at the sizes traced:", *(f"  {row}" for row in repaired)]
    return lines


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "-"
