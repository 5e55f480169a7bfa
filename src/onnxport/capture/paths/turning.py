"""Points within the declared ranges at which a condition on sizes has the other outcome."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.graph.sizes import SizeExpr, leaves_of
from onnxport.graph.sizes.arrays import values_over

# Every size up to this one is tried, and beyond it the neighbours of numbers in the expression and of powers of two.
SMALL = 64
LARGEST = 2**17


def turning_points(expression: SizeExpr, outcome: bool, axes: Sequence[Axis], start: Sizes) -> Iterator[Sizes]:
    """Points at which the condition is not ``outcome``, those with the fewest and smallest changes first."""
    by_label = {axis.label: axis for axis in axes}
    if not all(leaf.op == "axis" and leaf.operands[0] in by_label for leaf in leaves_of(expression)):
        return
    labels = [leaf.operands[0] for leaf in leaves_of(expression)]
    constants = sorted(constants_of(expression))
    choices = {label: list(candidates(by_label[label], start[label], constants)) for label in labels}
    for count in (1, 2):
        for moved in itertools.combinations(labels, count):
            columns = [choices[label][: SMALL if count > 1 else None] for label in moved]
            sizes = {label: np.asarray(size) for label, size in start.items()}
            sizes |= dict(zip(moved, np.ix_(*(np.asarray(column, np.int64) for column in columns)), strict=True))
            turned = values_over(expression, sizes) != outcome
            for index in np.argwhere(np.broadcast_to(turned, [len(column) for column in columns]))[:1]:
                found = {label: column[at] for label, column, at in zip(moved, columns, index, strict=True)}
                yield {**start, **found}


def candidates(axis: Axis, size: int, constants: Sequence[int]) -> Iterator[int]:
    """Sizes of an axis, the nearest to a size first."""
    found = set(range(axis.low, SMALL + 1))
    for number in (*constants, *(2**power for power in range(6, 17)), size, 2 * size):
        found.update((number - 1, number, number + 1))
    for left, right in itertools.product(constants, repeat=2):
        if 0 < left * right <= LARGEST:
            found.update((left * right - 1, left * right, left * right + 1))
    taken = [number for number in found if number != size and number <= LARGEST and axis.takes(number)]
    return iter(sorted(taken, key=lambda number: (number < 2, abs(number - size))))


def constants_of(expression: SizeExpr) -> set[int]:
    """The integers in an expression."""
    found: set[int] = set()
    waiting: list[Any] = [expression]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, SizeExpr):
            if not current.is_leaf:
                waiting += current.operands
        elif type(current) in (int, float) and abs(current) <= LARGEST:
            found.add(abs(int(current)))
    return found
