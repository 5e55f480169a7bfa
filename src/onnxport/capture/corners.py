"""Sizes far from those that were traced, at which a file may be wrong though it is right at all of them.

What Python computes without the trace or the source telling of it, ``min(len(x), 5)`` for one, is a constant at sizes
that lie close together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.capture.probes import worth_tracing
from onnxport.capture.sizes import Axis, Grids, Sizes, example_sizes, far_sizes

if TYPE_CHECKING:
    from onnxport.capture.trace import Capture

# The largest size that is tried, whatever the example's.
HIGHEST = 320


def corner_points(captured: Capture, traced: Sequence[Sizes], tensors: Sequence[torch.Tensor]) -> list[Sizes]:
    """Points at which a run costs little: all axes small, and each of them large.

    Where Python read sizes, others between them. None for a model with loops, which on other data may never end.
    """
    if not captured.axes or any(node.op == "prim::Loop" for node in captured.graph.block.all_nodes()):
        return []
    points = [example_sizes(captured.axes), *traced]
    seen = {axis.label: [point[axis.label] for point in points] for axis in captured.axes}
    nearest = {label: min(sizes) for label, sizes in seen.items()}
    found = [{axis.label: _smallest(axis, seen[axis.label]) for axis in captured.axes}]
    for label, sizes in seen.items():
        between = _ladder() if captured.frozen else ()
        found += [{**nearest, label: size} for size in (*far_sizes(sizes), *between)]
    return [point for point in found if point not in points and worth_tracing(point, captured.axes, tensors)]


def _ladder() -> Iterator[int]:
    """Small sizes, and others that lie further and further apart."""
    size = 2
    while size <= HIGHEST:
        yield size
        size += size // 2


def _smallest(axis: Axis, seen: Sequence[int]) -> int:
    """On an axis that is no batch, the smallest size over which nothing is repeated."""
    grids = Grids.of(seen)
    return grids.size(2) if grids is not None else max(axis.low, 1 if axis.leads else 2)


def stray_point(point: Sizes, problems: Sequence[str]) -> str:
    """The warning of a size at which the file is wrong, and which could not be traced with the others."""
    at = ", ".join(f"{label}={length}" for label, length in point.items())
    return (
        f"at {at} the file does not compute what the model computes ({problems[0]}), though it does at the sizes that "
        "were traced: a number or a condition of the model is another there. Give the axes ranges without such sizes "
        f'(dynamic_shapes with torch.export.Dim("{next(iter(point))}", min=..., max=...)), or compute from x.shape, '
        "with tensor operations, what follows from a size."
    )
