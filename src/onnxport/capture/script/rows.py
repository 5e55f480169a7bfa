"""The points that a scripted program is read at."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.sizes.guesses import LARGE, LEAST_POINTS
from onnxport.graph.sizes import Size, SizeExpr, exact

# Tensors of a dozen such sizes can still be counted.
LEAST_LARGE = 10


class Coincidence(Exception):
    """Sizes that are equal at all points differ at another one, which is one of them from now on."""


class Rows:
    """Points at which the model ran, one where all axes are large, and further ones: where sizes differ that are equal
    at all the others, and beyond every number of the program.

    A program is read on tensors without content, so that no size is too large; ``large`` is the least of the large one.
    """

    def __init__(self, points: Sequence[Sizes], axes: Sequence[Axis]) -> None:
        self.large = LARGE
        self._points = points
        self._axes = axes
        self._least = len(points) + bool(axes)
        self._with_large = bool(axes)
        self._further: list[Sizes] = []
        self._tried: list[Sizes] = []

    def all(self) -> list[Sizes]:
        """As many points as are needed: those given again and again, and the large one."""
        points = [*self._points, *self._further]
        last = []
        if self._with_large:
            step = self.large // 50 + 1
            last = [{axis.label: self.large + step * place for place, axis in enumerate(self._axes)}]
        count = max(self._least + len(self._further), len(points))
        return [*(points[index % len(points)] for index in range(count - len(last))), *last]

    def repeat(self) -> None:
        """Have more points: guesses are to be told apart."""
        self._least = LEAST_POINTS

    def tell_apart(self, left: SizeExpr, right: Size) -> None:
        """Two sizes are equal at every point: if there is one at which they differ, the program is read there too."""
        same = exact("eq", left, right)
        if not isinstance(same, SizeExpr):
            return
        for point in turning_points(same, True, self._axes, self._points[0]):
            if point not in self._tried:
                self._tried.append(point)
                self._further.append(point)
                raise Coincidence(point)

    def goes_beyond(self, largest: int) -> bool:
        """Have points far beyond the largest number of the program; whether there were none."""
        rows = rows_at.beyond(self._axes, self._points[0], largest)
        known = [*self.all(), *self._tried]
        farthest = {axis.label: max(row[axis.label] for row in known) for axis in self._axes}
        new = [row for row in rows if any(size > farthest[label] for label, size in row.items())]
        self._tried += new
        self._further += new
        return bool(new)

    def drop(self) -> bool:
        """Do without a point that the program may not take; False if there is none but those at which it ran."""
        if self._further:
            self._further.pop()
        elif self._with_large:
            self._with_large = False
        else:
            return False
        return True

    def shrink(self) -> bool:
        """Make large sizes smaller; False if they are as small as they can be."""
        if self._further:
            self._further.pop()
        elif self.large == LEAST_LARGE:
            return False
        else:
            self.large = max(self.large // 20, LEAST_LARGE)
        return True
