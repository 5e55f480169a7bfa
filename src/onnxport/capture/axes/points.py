"""Sizes of the dynamic axes at which a record is evaluated, and a model run or checked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.capture.axes.axis import Axis, Sizes, shapes_at

# Sizes modulo 64 by their parity after each of six halvings: all odd, alternating from either start, all even.
HALVED = 64
PATTERNS = (0b111111, 0b010101, 0b101010, 0b000000)
# A far size is this many times the largest constant of a record: strides and patches make it smaller.
BEYOND = 67
# With inputs of so few elements a run takes no time, unless Python has a loop over them.
FEW_ELEMENTS = 2**12


def _within(axis: Axis, size: int) -> int:
    return max(axis.low, size if axis.high is None else min(axis.high, size))


def starts(axes: Sequence[Axis]) -> list[Sizes]:
    """The example, or, if it has sizes of 0 or 1, points without those, the smallest first.

    A size of 1 is broadcast and one of 0 is empty: both hide how sizes are related.
    """
    example = {axis.label: axis.size for axis in axes}
    if all(axis.size > 1 for axis in axes):
        return [example]
    points = []
    for least in (2, 3):
        point = dict(example)
        for axis in axes:
            if axis.size < 2:
                taken = set(point.values())
                point[axis.label] = next((n for n in range(least, 99) if axis.takes(n) and n not in taken), axis.size)
        points.append(point)
    return points


def is_bearable(
    tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Sizes, times: int = 16, few: int = FEW_ELEMENTS
) -> bool:
    """Whether the inputs at a point are small enough that a run takes about as long as one of the example."""
    elements = sum(map(math.prod, shapes_at(tensors, axes, point)))
    return elements <= max(few, times * sum(tensor.numel() for tensor in tensors))


def doubled(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """About twice the size of each axis, one at a time."""
    return [{**start, axis.label: _within(axis, 2 * max(start[axis.label], 1))} for axis in axes]


def together(axes: Sequence[Axis], start: Sizes) -> Sizes:
    """All axes at twice their sizes: ``y.reshape(*x.shape[:3], -1)`` takes few changes of one size alone."""
    return {axis.label: _within(axis, 2 * max(start[axis.label], 1)) for axis in axes}


def least(axes: Sequence[Axis]) -> list[Sizes]:
    """The smallest sizes of all axes."""
    return [{axis.label: axis.low for axis in axes}, {axis.label: _within(axis, max(axis.low, 2)) for axis in axes}]


def nearby(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """All axes at a few times their sizes, odd ones and multiples, each with another factor."""
    rows = []
    for k in range(len(PATTERNS)):
        row = {}
        for index, axis in enumerate(axes):
            factor = 3 + (k * (index + 2) + index) % 7
            odd = (0, 1, 3, 7)[(k + index) % 4] if k % 2 else 0
            row[axis.label] = _within(axis, max(start[axis.label], 1) * factor + odd)
        rows.append(row)
    return rows


def far(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """All axes at large sizes, which after several halvings are odd at one point and even at another."""
    rows = []
    for k in range(len(PATTERNS)):
        row = {}
        for index, axis in enumerate(axes):
            whole = max(start[axis.label], 1) * (3 + (k * (index + 2) + index) % 7) // HALVED + 1
            row[axis.label] = _within(axis, whole * HALVED + PATTERNS[(k + index) % len(PATTERNS)])
        rows.append(row)
    return rows


def farthest(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """Each axis at sizes near powers of two, one axis at a time; for models that run fast even there."""
    return [{**start, axis.label: _within(axis, 2**power + 3)} for axis in axes for power in range(6, 14)]


def beyond(axes: Sequence[Axis], start: Sizes, largest: int) -> list[Sizes]:
    """Each axis far beyond every constant that the model compares or slices with, one at a time."""
    rows = []
    for axis in axes:
        size = max(start[axis.label], 1)
        times = -(-BEYOND * largest // size)
        rows += [{**start, axis.label: _within(axis, size * times + odd)} for odd in (0, 1)]
    return rows
