"""What an export did about sizes: the axes asked for, where each was traced and checked, and numbers repaired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnxport.graph.dims import ROOT, Size
from onnxport.graph.dims import size as size_of
from onnxport.graph.ir import BAKED, Graph, Node
from onnxport.graph.sizes.text import text
from onnxport.graph.solve import solve, solve_float

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "//", "Mod": "%"}
_FUNCTIONS = {
    "Reciprocal": "1 / {}",
    "Sqrt": "sqrt({})",
    "ReciprocalSqrt": "1 / sqrt({})",
    "Log": "log({})",
    "Exp": "exp({})",
}


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

    ``values`` are what it was at each traced point. ``expression`` is how it follows from the axes; None where it
    follows from sizes inside the model.
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
    baked = [node for node in graph.block.all_nodes() if node.op == BAKED]
    read = set(graph.block.outer_values()) if baked else set()
    return list(dict.fromkeys(_repaired(graph, node) for node in baked if node.outputs[0] in read))


def _repaired(graph: Graph, node: Node) -> RepairedNumber:
    numbers = tuple(node.inputs["at"])
    if all(isinstance(number, int) for number in numbers):
        expression = spelled(graph, size_of(numbers))
    else:
        expression = _spelled_float(graph, numbers)
    source = str(node.source) if node.source else None
    return RepairedNumber(source, graph.scope_name(node.scope), numbers, expression)


def spelled(graph: Graph, size: Size) -> str | None:
    """A size in terms of the axes: ``2 * batch + 1``."""
    if isinstance(size, int):
        return str(size)
    if size in graph.axes:
        return graph.axes[size]
    known_as = graph.expressions.get(size) or solve(size, list(graph.axes))
    return None if known_as is None else _written(graph, known_as)


def _written(graph: Graph, size: Size, *, inner: bool = False) -> str | None:
    if isinstance(size, int) or size in graph.axes:
        return str(size) if isinstance(size, int) else graph.axes[size]
    if size.how is None:
        return text(size, graph.axes.get)
    operator, *operands = size.how
    parts = [_written(graph, operand, inner=operator in _SIGNS) for operand in operands]
    if any(part is None for part in parts):
        return None
    if operator == ROOT:
        return f"isqrt({parts[0]})"
    if operator not in _SIGNS:
        return f"{operator.lower()}({parts[0]}, {parts[1]})"
    written = f"{parts[0]} {_SIGNS[operator]} {parts[1]}"
    return f"({written})" if inner else written


def _spelled_float(graph: Graph, numbers: Sequence[float]) -> str | None:
    found = solve_float(numbers, list(graph.axes))
    base = None if found is None else _written(graph, found.base, inner=True)
    divisor = None if found is None else _written(graph, found.divisor, inner=True)
    if found is None or base is None or divisor is None:
        return None
    of = base if found.divisor == 1 else f"({base} / {divisor})"
    written = _FUNCTIONS.get(found.function, "{}").format(of)
    written = written if found.factor == 1 else f"{found.factor:g} * {written}"
    return f"{written} + {found.offset:g}" if found.offset else written


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
