"""Points at which conditions on sizes turn."""

from __future__ import annotations

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.paths.turning import turning_points
from onnxport.graph.sizes import SizeExpr, axis, exact

START = {"n": 7, "m": 4}
AXES = [Axis("n", ((0, 0),), 7, named=True), Axis("m", ((0, 1),), 4, named=True)]
N, M = axis("n", (7, 9, 30)), axis("m", (4, 11, 5))


def points(op: str, left: SizeExpr, right: SizeExpr | int, outcome: bool) -> list[Sizes]:
    found = exact(op, left, right)
    assert isinstance(found, SizeExpr)
    return list(turning_points(found, outcome, AXES, START))


def test_the_nearest_point_comes_first() -> None:
    assert points("gt", N, 10, False) == [{"n": 11, "m": 4}]
    assert points("lt", N // 2 + M, 9, True)[0] == {"n": 10, "m": 4}


def test_two_axes_that_turn_only_together() -> None:
    assert points("eq", (N - 5) * (M - 3), 15, False)[-1] == {"n": 6, "m": 18}


def test_divisions_by_zero_stand_for_what_they_do_elsewhere() -> None:
    assert points("gt", 12 // (N - 6), 11, True)[0] == {"n": 6, "m": 4}
    assert {"n": 6, "m": 4} in points("gt", N / (N - 6), 100, False)
