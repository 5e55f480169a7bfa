"""The points at which a scripted program is read."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.capture.axes import points as axis_points
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.sizes.guesses import LARGE, LEAST_POINTS
from onnxport.graph.sizes import Size, SizeExpr, exact

# Tensors of a dozen such sizes can still be counted.
LEAST_LARGE = 10


class Coincidence(Exception):
    """Sizes that are equal at all points differ at another one, which has been added to the points."""


class ReadingPoints:
    """Points at which the model ran, one where all axes are large, and further ones.

    The further ones separate sizes that are equal at all other points, or lie beyond every constant of the program.
    A program is read on meta tensors, so no size is too large; ``large`` is the smallest size of the large point.
    """

    def __init__(self, points: Sequence[Sizes], axes: Sequence[Axis]) -> None:
        self.large = LARGE
        self._points = points
        self._axes = axes
        self._count = len(points) + bool(axes)
        self._with_large = bool(axes)
        self._more: list[Sizes] = []
        self._tried: list[Sizes] = []

    def all(self) -> list[Sizes]:
        """As many points as are needed: the given ones in turn, and the large one."""
        points = [*self._points, *self._more]
        last = []
        if self._with_large:
            step = self.large // 50 + 1
            last = [{axis.label: self.large + step * index for index, axis in enumerate(self._axes)}]
        count = max(self._count + len(self._more), len(points))
        return [*(points[index % len(points)] for index in range(count - len(last))), *last]

    def repeat(self) -> None:
        """Use more points, so that guesses can be told apart."""
        self._count = LEAST_POINTS

    def tell_apart(self, left: SizeExpr, right: Size) -> None:
        """Two sizes are equal at every point: if there is one at which they differ, the program is read there too."""
        same = exact("eq", left, right)
        if not isinstance(same, SizeExpr):
            return
        for point in turning_points(same, True, self._axes, self._points[0]):
            if point not in self._tried:
                self._tried.append(point)
                self._more.append(point)
                raise Coincidence(point)

    def goes_beyond(self, largest: int) -> bool:
        """Add points far beyond the largest constant of the program; False if there were some before."""
        rows = axis_points.beyond(self._axes, self._points[0], largest)
        known = [*self.all(), *self._tried]
        farthest = {axis.label: max(row[axis.label] for row in known) for axis in self._axes}
        new = [row for row in rows if any(size > farthest[label] for label, size in row.items())]
        self._tried += new
        self._more += new
        return bool(new)

    def drop(self) -> bool:
        """Drop a point that the program may refuse; False if only those remain at which it ran."""
        if self._more:
            self._more.pop()
        elif self._with_large:
            self._with_large = False
        else:
            return False
        return True

    def shrink(self) -> bool:
        """Make the large sizes smaller; False if they cannot be smaller."""
        if self._more:
            self._more.pop()
        elif self.large == LEAST_LARGE:
            return False
        else:
            self.large = max(self.large // 20, LEAST_LARGE)
        return True
