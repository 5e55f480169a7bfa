"""Sizes of the dynamic axes at which a record is evaluated, and a model run or checked."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.capture.sizes import Axis, Sizes

FAR_ROWS = 4
# How many times the largest number of a record a far size is: strides and patches make it smaller.
BEYOND = 67


def _within(axis: Axis, size: int) -> int:
    return max(axis.low, size if axis.high is None else min(axis.high, size))


def doubled(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """About twice the size of each axis, one at a time."""
    return [{**start, axis.label: _within(axis, 2 * max(start[axis.label], 1))} for axis in axes]


def least(axes: Sequence[Axis]) -> list[Sizes]:
    """The smallest sizes of all axes."""
    return [{axis.label: axis.low for axis in axes}, {axis.label: _within(axis, max(axis.low, 2)) for axis in axes}]


def far(axes: Sequence[Axis], start: Sizes) -> list[Sizes]:
    """Sizes many times the start's, odd ones and multiples; no two axes go in step."""
    rows = []
    for k in range(FAR_ROWS):
        row = {}
        for place, axis in enumerate(axes):
            factor = 3 + (k * (place + 2) + place) % 7
            odd = (0, 1, 3, 7)[(k + place) % 4] if k % 2 else 0
            row[axis.label] = _within(axis, max(start[axis.label], 1) * factor + odd)
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
