"""What the user is told of sizes at which the file does not do what the model does."""

from __future__ import annotations

from onnxport.capture.sizes import Sizes
from onnxport.graph.ir import Node, Source


def untried_condition(source: Source, point: Sizes) -> str:
    """The warning for a condition on sizes of which one side is not in the file."""
    label = next(iter(point))
    return (
        f"{source}: a condition on sizes turns out otherwise at {shown(point)}, which was not tried: what the model "
        "does there is not in the file. Give the axis a range without it "
        f'(dynamic_shapes with torch.export.Dim("{label}", min=..., max=...)), or write this without a condition.'
    )


def dropped_axis(source: Source, point: Sizes) -> str:
    """The warning of a squeeze that drops an axis at sizes which were not tried."""
    return (
        f"{source}: at {shown(point)} this squeeze drops an axis that the file keeps, which follows the other sizes. "
        "Name the axes to drop, as in squeeze(-1), or give the axis a range without that size "
        f'(dynamic_shapes with torch.export.Dim("{next(iter(point))}", min=2)).'
    )


def stray_number(node: Node, point: Sizes, place: int) -> str:
    """The warning of a number that is another, in this place of its numbers, at a size where something else was
    tried."""
    usual, there = node.inputs["at"][0], node.inputs["at"][place]
    return (
        f"{node.source}: a number that Python computed is {there} at {shown(point)} and {usual} at the other sizes "
        f"tried; the file has {usual}, and is wrong there. Give the axis a range without such sizes "
        f'(dynamic_shapes with torch.export.Dim("{next(iter(point))}", min=..., max=...)).'
    )


def shown(point: Sizes) -> str:
    return ", ".join(f"{label}={length}" for label, length in point.items())
