"""Points at which to run a model again because Python dropped the expressions of numbers that differ there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.choices import LEAST_SIDES
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.record.record import Loss
from onnxport.graph.sizes import SizeExpr, evaluate, exact, leaves_of

# So many values of a lost number are tried where fewer do not tell how another one follows from it.
MOST_VALUES = 6

Losses = Sequence[tuple[Loss, Any]]


def further_points(losses: Losses, axes: Sequence[Axis], ran: Sequence[Sizes], *, more: bool) -> Iterator[Sizes]:
    """Points where a lost number is none of those that it was where the model ran; one of them is far away."""
    wanted = MOST_VALUES if more else LEAST_SIDES
    # A size in a formatted text is a message nearly always: it costs no run.
    for expression in dict.fromkeys(expression for loss, expression in losses if loss.how != "format"):
        if not _follows_axes(expression, axes):
            continue
        seen = [_at(expression, point) for point in ran]
        if len(set(seen)) < wanted:
            fresh = [point for point in _candidates(expression, seen[0], axes, ran[0]) if point not in ran]
            fresh = [point for point in fresh if _at(expression, point) not in seen]
            if len(set(seen)) == LEAST_SIDES - 1:
                fresh.sort(key=lambda point: -sum(point.values()))
            yield from fresh


def _candidates(expression: SizeExpr, usual: Any, axes: Sequence[Axis], start: Sizes) -> Iterator[Sizes]:
    yield from rows_at.nearby(axes, start)
    yield from rows_at.doubled(axes, start)
    yield from rows_at.least(axes)
    same = exact("eq", expression, usual)
    if isinstance(same, SizeExpr):
        yield from turning_points(same, True, axes, start)
    yield from rows_at.farthest(axes, start)


def points_of_keys(losses: Losses, axes: Sequence[Axis], start: Sizes) -> Iterator[Sizes]:
    """Points where a size that is looked up is one of the keys."""
    for loss, expression in losses:
        for key in loss.keys:
            found = exact("eq", expression, key)
            if isinstance(found, SizeExpr):
                yield from turning_points(found, False, axes, start)


def _follows_axes(expression: Any, axes: Sequence[Axis]) -> bool:
    labels = {axis.label for axis in axes}
    return all(leaf.op == "axis" and leaf.operands[0] in labels for leaf in leaves_of(expression))


def _at(expression: SizeExpr, point: Sizes) -> Any:
    return evaluate(expression, {leaf: point[leaf.operands[0]] for leaf in leaves_of(expression)})
