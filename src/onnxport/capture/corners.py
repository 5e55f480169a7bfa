"""Sizes far from those that were traced, at which a file may be wrong though it is right at all of them.

What Python computes without the trace or the source telling of it, ``min(len(x), 5)`` for one, is a constant at sizes
that lie close together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.capture.probes import elements, worth_tracing
from onnxport.capture.sizes import Axis, Grids, Sizes, example_sizes, far_sizes

if TYPE_CHECKING:
    from onnxport.capture.trace import Capture

# The largest size that is tried, whatever the example's.
HIGHEST = 320
# What all of them may cost together: as much as so many runs of the example, or so many products with a weight.
RUNS = 4
FEW_PRODUCTS = 2**30
FEW_WEIGHTS = 2**15


def corner_points(
    captured: Capture, traced: Sequence[Sizes], tensors: Sequence[torch.Tensor], weights: int
) -> list[Sizes]:
    """Points at which runs cost little together: all axes small, and each of them large.

    Where Python read sizes, others between them. None for a model with loops, which on other data may never end.
    ``weights`` are the elements of the model's parameters.
    """
    if not captured.axes or any(node.op == "prim::Loop" for node in captured.graph.block.all_nodes()):
        return []
    points = [example_sizes(captured.axes), *traced]
    seen = {axis.label: [point[axis.label] for point in points] for axis in captured.axes}
    nearest = {label: min(sizes) for label, sizes in seen.items()}
    found = [{axis.label: _smallest(axis, seen[axis.label]) for axis in captured.axes}]
    far = [(label, size) for label, sizes in seen.items() for size in far_sizes(sizes) if size <= HIGHEST]
    found += [{**nearest, label: size} for label, size in far]
    if captured.frozen:
        found += [{**nearest, label: size} for size in _ladder() for label in seen]
    left = max(FEW_PRODUCTS // max(weights, FEW_WEIGHTS), RUNS * elements(tensors, captured.axes, {}))
    kept = []
    for point in found:
        cost = elements(tensors, captured.axes, point)
        if cost <= left and point not in points and worth_tracing(point, captured.axes, tensors):
            left -= cost
            kept.append(point)
    return kept


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


def stray_point(point: Sizes, traced: Sequence[Sizes], told: Sequence[str]) -> Iterator[str]:
    """The warning of a size at which the file is wrong, unless something ``told`` already names that size."""
    sizes = {label: f"{label}={length}" for label, length in point.items()}
    moved = [text for label, text in sizes.items() if point[label] not in [other.get(label) for other in traced]]
    if any(re.search(rf"(?<!\w){re.escape(text)}(?!\d)", message) for message in told for text in moved):
        return
    yield (
        f"at {', '.join(sizes.values())} the file does not compute what the model computes, though it does "
        "at the sizes that were traced: a number or a condition of the model is another there. Give the axes ranges "
        f'without such sizes (dynamic_shapes with torch.export.Dim("{next(iter(point))}", min=..., max=...)), or '
        "compute from x.shape, with tensor operations, what follows from a size."
    )
