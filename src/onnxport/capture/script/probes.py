"""Sizes of the dynamic axes at which a condition on sizes has another outcome."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from onnxport.capture.axes.axis import Axis, Sizes, shapes_at
from onnxport.capture.sizes.size_conditions import SizeCondition
from onnxport.graph.sizes import Size, SizeExpr

# Inputs with more elements than these, or than this multiple of the example, are not worth a further run.
FEW_ELEMENTS = 4096
COSTLY_FACTOR = 4


@dataclass(frozen=True)
class Probe:
    """A point with another outcome of a condition; ``costly`` if inputs of these sizes are too large for a run."""

    condition: SizeCondition
    point: Sizes
    costly: bool


def probes(
    conditions: Iterable[SizeCondition],
    axes: Sequence[Axis],
    points: Sequence[Sizes],
    refused: Sequence[Sizes],
    tensors: Sequence[torch.Tensor],
) -> Iterator[Probe]:
    """A point for each condition that had one outcome so far, if there is one in the axes' ranges."""
    for condition in dict.fromkeys(conditions):
        within = (point for point in _turning(condition, axes, points) if point not in points and in_range(point, axes))
        found = [Probe(condition, point, not _is_cheap(point, axes, tensors)) for point in within]
        found.sort(key=lambda probe: probe.costly)
        if found and not any(probe.point in refused for probe in found):
            yield found[0]


def _turning(condition: SizeCondition, axes: Sequence[Axis], points: Sequence[Sizes]) -> Iterator[Sizes]:
    """Points near the smallest one. Sizes that have to grow come first: models rather refuse small sizes."""
    points = points[: condition.captures]
    base = _smallest(points)
    left, right = (_at(size, base) for size in (condition.left, condition.right))
    choices = [condition.moves(left, right, outcome) for outcome in condition.missing()]
    for level in itertools.zip_longest(*choices, fillvalue=[]):
        moves = [move for moves in level for move in moves]
        for size, target in sorted(moves, key=lambda move: move[1] < _at(move[0], base)):
            found = _axis_size(size, target, axes, points) if isinstance(size, SizeExpr) else None
            if found is not None and in_range({**points[base], **found}, axes):
                yield {**points[base], **found}
                return


def _smallest(points: Sequence[Sizes]) -> int:
    return min(range(len(points)), key=lambda index: math.prod(points[index].values()))


def _axis_size(size: SizeExpr, target: int, axes: Sequence[Axis], points: Sequence[Sizes]) -> Sizes | None:
    """The size of one axis at which another size reaches the target.

    For sizes that grow linearly with the axis, up to the rounding of a stride.
    """
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
        # Axes whose sizes grew in proportion fit equally well: one that equals the size itself goes first.
        fit = (error, tuple(lengths) != size.at)
        if error <= 1 and found >= 1 and (best is None or fit < best[0]):
            best = (fit, {axis.label: found})
    return best and best[1]


def _at(size: Size, index: int) -> int:
    return size.at[index] if isinstance(size, SizeExpr) else size


def in_range(point: Sizes, axes: Sequence[Axis]) -> bool:
    return all(axis.takes(point[axis.label]) for axis in axes)


def _is_cheap(point: Sizes, axes: Sequence[Axis], tensors: Sequence[torch.Tensor]) -> bool:
    return elements(tensors, axes, point) <= max(FEW_ELEMENTS, COSTLY_FACTOR * elements(tensors, axes, {}))


def elements(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Sizes) -> int:
    return sum(math.prod(shape) for shape in shapes_at(tensors, axes, point))
