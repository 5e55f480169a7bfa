"""Points at which to run a model again because Python dropped the expression of a number that differs there.

What Python computed from such a number is known only for the values that it had in runs. So each number gets several
values on each path, one of them far away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.decisions import Path
from onnxport.capture.paths.coverage import Rows, grids, held_by
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.record.record import Loss
from onnxport.graph.sizes import SizeExpr, exact
from onnxport.graph.sizes.bounds import bounds

# How many values of a lost number are tried: that of the first run, one nearby, one far away, and the next one.
LEAST_VALUES = 4
# How many where fewer do not determine the function that computed another number from it.
MOST_VALUES = 6
# A number with at most this many possible values, such as n % 8, is tried at each of them.
MOST_IN_ALL = 16

Losses = Sequence[tuple[Loss, Any]]


def further_points(
    lost: SizeExpr, path: Path, axes: Sequence[Axis], ran: Sequence[Sizes], *, more: bool
) -> Iterator[Sizes]:
    """Points on a path at which a lost number has a value that it had in no run."""
    seen = np.unique(Rows(ran).values(lost))
    low, high = bounds(lost)
    has_few = lost.kind is not float and high - low < MOST_IN_ALL
    if len(seen) >= (high - low + 1 if has_few else MOST_VALUES if more else LEAST_VALUES):
        return
    usual = [*rows_at.nearby(axes, ran[0]), *rows_at.doubled(axes, ran[0]), *rows_at.least(axes)]
    if len(seen) == LEAST_VALUES - 1:
        usual = [ran[0]]
    if len(seen) == LEAST_VALUES - 2:
        usual = sorted([*usual, *rows_at.farthest(axes, ran[0])], key=lambda point: -sum(point.values()))
    for grid in (Rows(usual), *grids([path], axes, ran[0], [lost])):
        yield from grid.points(held_by(path, grid) & ~np.isin(grid.values(lost), seen))


def points_of_keys(losses: Losses, axes: Sequence[Axis], start: Sizes) -> Iterator[tuple[Loss, list[Sizes]]]:
    """For each key of a table in which a size was looked up, the points at which the size is that key."""
    for loss, expression in losses:
        for key in loss.keys:
            found = exact("eq", expression, key)
            if isinstance(found, SizeExpr):
                yield loss, list(turning_points(found, False, axes, start))
