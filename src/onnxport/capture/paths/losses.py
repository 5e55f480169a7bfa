"""Points at which to run a model again because Python dropped the expressions of numbers that differ there.

What became of such a number is known for the values that it had in runs, and guessed between them: so there are several
values of each, one of them far away, on each path through the model.
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

# So many values of a lost number are tried: that of the first run, one nearby, one far away, and the next one.
LEAST_VALUES = 4
# And so many where fewer do not tell how another number follows from it.
MOST_VALUES = 6
# A number that can have no more values than these, such as n % 8, is tried at each of them.
MOST_IN_ALL = 16

Losses = Sequence[tuple[Loss, Any]]


def further_points(
    lost: SizeExpr, path: Path, axes: Sequence[Axis], ran: Sequence[Sizes], *, more: bool
) -> Iterator[Sizes]:
    """Points on a path at which a lost number is none of those that it was where the model ran."""
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
    """For each key among which a size was looked up, the points where the size is the key."""
    for loss, expression in losses:
        for key in loss.keys:
            found = exact("eq", expression, key)
            if isinstance(found, SizeExpr):
                yield loss, list(turning_points(found, False, axes, start))
