"""The sizes of the dynamic axes at which a condition on sizes would turn out otherwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from onnxport.capture.conditions import Condition
from onnxport.capture.sizes import Axis, Sizes, shapes_at
from onnxport.graph.dims import Dim, Size
from onnxport.graph.doubts import Doubt

# Inputs with more elements than these, or than this multiple of the example, are not worth a further trace.
FEW_ELEMENTS = 4096
COSTLY_FACTOR = 4
# Sizes up to here are looked through one by one for one at which a condition turns.
LOOKED_THROUGH = 130
# How far from the size at which a straight line says that a condition turns it is looked for.
ROUNDING = 2


@dataclass(frozen=True)
class Probe:
    """A point that would settle a doubt; ``costly`` if inputs of these sizes are too large to be worth a trace."""

    doubt: Doubt | Condition
    point: Sizes
    costly: bool


def probes(
    doubts: Iterable[Doubt | Condition],
    axes: Sequence[Axis],
    points: Sequence[Sizes],
    refused: Sequence[Sizes],
    tensors: Sequence[torch.Tensor],
) -> Iterator[Probe]:
    """Each open doubt with a point that would settle it, if there is one in the axes' ranges."""
    for doubt in dict.fromkeys(doubts):
        settling = (
            _turning(doubt, axes, points, tensors) if isinstance(doubt, Condition) else _settling(doubt, axes, points)
        )
        within = (point for point in settling if point not in points and in_range(point, axes))
        found = [Probe(doubt, point, not _is_cheap(point, axes, tensors)) for point in within]
        found.sort(key=lambda probe: probe.costly)
        if found and not any(probe.point in refused for probe in found):
            yield found[0]


def _turning(
    condition: Condition, axes: Sequence[Axis], points: Sequence[Sizes], tensors: Sequence[torch.Tensor]
) -> Iterator[Sizes]:
    """Points near the smallest one at which a condition turns, with one axis moved: the nearest larger size of each
    axis first, since a model rather refuses small ones, then the nearest smaller one."""
    wanted = condition.missing([shapes_at(tensors, axes, point) for point in points])
    if wanted is None:
        return
    base = points[_smallest(points)]

    def turns(axis: Axis, length: int) -> bool:
        return axis.takes(length) and wanted(condition.outcome(shapes_at(tensors, axes, {**base, axis.label: length})))

    found = []
    for axis in axes:
        start = base[axis.label]
        for lengths in (_larger(condition, axis, axes, base, tensors), range(start - 1, 0, -1)):
            turning = itertools.islice((length for length in lengths if turns(axis, length)), 2)
            near = [(length < start, abs(length - start), {**base, axis.label: length}) for length in turning]
            telling = [choice for choice in near if not condition.is_equal(shapes_at(tensors, axes, choice[2]))]
            found += (telling or near)[:1]
    found.sort(key=lambda candidate: candidate[:2])
    yield from (point for _, _, point in found)


def _larger(
    condition: Condition, axis: Axis, axes: Sequence[Axis], base: Sizes, tensors: Sequence[torch.Tensor]
) -> Iterator[int]:
    """Larger sizes of an axis: one by one, then those around which a straight line has both sides equal."""
    start = base[axis.label]
    yield from range(start + 1, start + LOOKED_THROUGH)
    differences = []
    for length in (start, start + LOOKED_THROUGH):
        shapes = shapes_at(tensors, axes, {**base, axis.label: length})
        left, right = condition.left(shapes), condition.right(shapes)
        if left is None or right is None:
            return
        differences.append(left - right)
    slope = (differences[1] - differences[0]) / LOOKED_THROUGH
    if slope:
        meeting = start - differences[0] / slope
        if math.isfinite(meeting) and meeting > start:
            yield from (round(meeting) + step for step in range(-ROUNDING, ROUNDING + 1))


def _settling(doubt: Doubt, axes: Sequence[Axis], points: Sequence[Sizes]) -> Iterator[Sizes]:
    """Points near the smallest one, with the size moved that has to grow first: a model rather refuses small sizes."""
    points = points[: doubt.captures]
    base = _smallest(points)
    left, right = (_at(size, base) for size in (doubt.left, doubt.right))
    choices = [doubt.moves(left, right, outcome) for outcome in doubt.missing()]
    for level in itertools.zip_longest(*choices, fillvalue=[]):
        moves = [move for moves in level for move in moves]
        for size, target in sorted(moves, key=lambda move: move[1] < _at(move[0], base)):
            found = _axis_size(size, target, axes, points) if isinstance(size, Dim) else None
            if found is not None and in_range({**points[base], **found}, axes):
                yield {**points[base], **found}
                return


def _smallest(points: Sequence[Sizes]) -> int:
    return min(range(len(points)), key=lambda index: math.prod(points[index].values()))


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


def worth_tracing(point: Sizes, axes: Sequence[Axis], tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a point lies in the axes' ranges and costs little."""
    return in_range(point, axes) and _is_cheap(point, axes, tensors)


def in_range(point: Sizes, axes: Sequence[Axis]) -> bool:
    return all(axis.takes(point[axis.label]) for axis in axes)


def _is_cheap(point: Sizes, axes: Sequence[Axis], tensors: Sequence[torch.Tensor]) -> bool:
    return elements(tensors, axes, point) <= max(FEW_ELEMENTS, COSTLY_FACTOR * elements(tensors, axes, {}))


def elements(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Sizes) -> int:
    return sum(math.prod(shape) for shape in shapes_at(tensors, axes, point))
