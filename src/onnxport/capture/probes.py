"""The sizes of the dynamic axes at which a doubt about the order of two sizes would be settled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch

from onnxport.capture.sizes import Axis, Sizes
from onnxport.graph.dims import Dim, Size
from onnxport.graph.doubts import Doubt

# Inputs with more elements than these, or than this multiple of the example, are not worth a further trace.
FEW_ELEMENTS = 4096
COSTLY_FACTOR = 4


def probes(
    doubts: Iterable[Doubt], axes: Sequence[Axis], points: Sequence[Sizes], tensors: Sequence[torch.Tensor]
) -> Iterator[tuple[Doubt, Sizes]]:
    """Each open doubt with a point that would settle it, if there is one that costs little."""
    limit = max(FEW_ELEMENTS, COSTLY_FACTOR * _elements(tensors, axes, {}))
    for doubt in dict.fromkeys(doubts):
        for point in _settling(doubt, axes, points):
            if point not in points and _elements(tensors, axes, point) <= limit:
                yield doubt, point
                break


def _settling(doubt: Doubt, axes: Sequence[Axis], points: Sequence[Sizes]) -> Iterator[Sizes]:
    """Points near the smallest one, with the size moved that has to grow first: a model rather refuses small sizes."""
    wanted = doubt.wanted(len(points))
    if wanted is None:
        return
    base = min(range(len(points)), key=lambda index: math.prod(points[index].values()))
    left, right = (_at(size, base) for size in (doubt.left, doubt.right))
    moves = [(doubt.left, right + wanted), (doubt.right, left - wanted)]
    for size, target in sorted(moves, key=lambda move: move[1] < _at(move[0], base)):
        found = _axis_size(size, target, axes, points) if isinstance(size, Dim) else None
        if found is not None:
            yield {**points[base], **found}


def _axis_size(size: Dim, target: int, axes: Sequence[Axis], points: Sequence[Sizes]) -> Sizes | None:
    """The size of one axis at which another size reaches the target, for sizes that grow with the axis, a stride up
    to rounding included."""
    best: tuple[tuple[float, bool], Sizes] | None = None
    for axis in axes:
        lengths = [point[axis.label] for point in points]
        low, high = min(range(len(points)), key=lengths.__getitem__), max(range(len(points)), key=lengths.__getitem__)
        slope = (size.at[high] - size.at[low]) / ((lengths[high] - lengths[low]) or 1)
        if slope <= 0:
            continue
        error = max(abs(size.at[low] + slope * (n - lengths[low]) - m) for n, m in zip(lengths, size.at, strict=True))
        step = (target - size.at[low]) / slope
        found = lengths[low] + (math.ceil(step) if step > 0 else math.floor(step))
        # Axes that were traced at sizes in step fit alike: the one that has the size itself goes first.
        fit = (error, tuple(lengths) != size.at)
        if error <= 1 and found >= 1 and (best is None or fit < best[0]):
            best = (fit, {axis.label: found})
    return best and best[1]


def _at(size: Size, index: int) -> int:
    return size.at[index] if isinstance(size, Dim) else size


def _elements(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Sizes) -> int:
    shapes = [list(tensor.shape) for tensor in tensors]
    for axis in axes:
        for index, dim in axis.places:
            shapes[index][dim] = point.get(axis.label, axis.size)
    return sum(math.prod(shape) for shape in shapes)
