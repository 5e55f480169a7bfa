"""Sizes of the dynamic axes at which a record is evaluated, and a model run or checked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.capture.axes.axis import Axis, Sizes, shapes_at

# Sizes modulo 64 that are odd or even after each of six halvings: all odd, in turns, in turns the other way, all even.
HALVED = 64
PATTERNS = (0b111111, 0b010101, 0b101010, 0b000000)
# How many times the largest number of a record a far size is: strides and patches make it smaller.
BEYOND = 67


def _within(axis: Axis, size: int) -> int:
    return max(axis.low, size if axis.high is None else min(axis.high, size))


def starts(axes: Sequence[Axis]) -> list[Sizes]:
    """The example, unless a size of it would hide something: 1 is broadcast, 0 is nothing at all. Then points without
    such sizes, the smallest first."""
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


def is_bearable(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Sizes, times: int = 16) -> bool:
    """Whether the inputs are not so large at a point that a run there takes much longer than one of the example."""
    elements = sum(map(math.prod, shapes_at(tensors, axes, point)))
    return elements <= max(2**12, times * sum(tensor.numel() for tensor in tensors))


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
    """All axes at a few times their sizes, odd ones and multiples; no two axes go in step."""
    rows = []
    for k in range(len(PATTERNS)):
        row = {}
        for place, axis in enumerate(axes):
            factor = 3 + (k * (place + 2) + place) % 7
            odd = (0, 1, 3, 7)[(k + place) % 4] if k % 2 else 0
            row[axis.label] = _within(axis, max(start[axis.label], 1) * factor + odd)
        rows.append(row)
    return rows


def far(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """All axes at large sizes, which after several halvings are odd in one row and even in another."""
    rows = []
    for k in range(len(PATTERNS)):
        row = {}
        for place, axis in enumerate(axes):
            whole = max(start[axis.label], 1) * (3 + (k * (place + 2) + place) % 7) // HALVED + 1
            row[axis.label] = _within(axis, whole * HALVED + PATTERNS[(k + place) % len(PATTERNS)])
        rows.append(row)
    return rows


def farthest(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """Each axis at sizes by powers of two, one at a time, for models that take their time with none of them."""
    return [{**start, axis.label: _within(axis, 2**power + 3)} for axis in axes for power in range(6, 14)]


def beyond(axes: Sequence[Axis], start: Sizes, largest: int) -> list[Sizes]:
    """Each axis far beyond every number that the model compares or cuts with, one at a time."""
    rows = []
    for axis in axes:
        size = max(start[axis.label], 1)
        times = -(-BEYOND * largest // size)
        rows += [{**start, axis.label: _within(axis, size * times + odd)} for odd in (0, 1)]
    return rows
