"""Points in the declared ranges at which no run of a model holds: it decides otherwise there than in all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.decisions import Path, Step
from onnxport.capture.paths.turning import SMALL, candidates, constants_of, outcomes_at
from onnxport.graph.sizes import SizeExpr, leaves_of
from onnxport.graph.sizes.canonical import form_of

# Of the sizes of all axes together, where there are more than two.
MOST_TOGETHER = 2**14


@dataclass(frozen=True)
class Missing:
    """What no run did: a side was followed up to one of its conditions, which turns at the ``points``, nearest first.

    ``key`` tells the conditions so far and their outcomes.
    """

    side: int
    step: Step
    key: tuple[Any, ...]
    points: list[Sizes]


class Grid:
    """All combinations of sizes of some axes; the others are as at the start."""

    def __init__(self, start: Sizes, columns: Mapping[str, Sequence[int]]) -> None:
        self.start = start
        self.columns = columns
        self.shape = tuple(map(len, columns.values()))
        self._known: dict[bytes, Any] = {}

    def outcomes(self, expression: SizeExpr) -> Any:
        """The outcomes of a condition, along the axes that it follows from."""
        key = form_of(expression).key
        if key not in self._known:
            self._known[key] = self._outcomes(expression)
        return self._known[key]

    def _outcomes(self, expression: SizeExpr) -> Any:
        labels = {leaf.operands[0] for leaf in leaves_of(expression)}
        varying = {label: column for label, column in self.columns.items() if label in labels}
        rows = list(itertools.product(*varying.values()))
        columns = dict(zip(varying, zip(*rows, strict=True), strict=True))
        found = outcomes_at(expression, self.start, columns, len(rows))
        return np.array(found).reshape([len(c) if label in varying else 1 for label, c in self.columns.items()])

    def point(self, place: Sequence[int]) -> Sizes:
        sizes = {label: column[at] for (label, column), at in zip(self.columns.items(), place, strict=True)}
        return {**self.start, **sizes}


class Rows(Grid):
    """Some points."""

    def __init__(self, points: Sequence[Sizes]) -> None:
        super().__init__({}, {label: [point[label] for point in points] for label in points[0]})
        self.shape = (len(points),)
        self._points = points

    def _outcomes(self, expression: SizeExpr) -> Any:
        return np.array(outcomes_at(expression, {}, self.columns, len(self._points)))

    def point(self, place: Sequence[int]) -> Sizes:
        return self._points[place[0]]


def missing(paths: Sequence[Path], grid: Grid) -> Iterator[Missing]:
    """What no run did at points of a grid, the paths being those of all runs, of conditions that follow from axes."""
    turning = [[(step, held) for step in path if not (held := _held(step, grid)).all()] for path in paths]
    open_ = np.ones(grid.shape, bool)
    for path in turning:
        open_ &= ~_all(path, grid.shape)
    while open_.any():
        places = np.argwhere(open_)
        place = places[places.sum(axis=1).argmin()]
        followed = [_count(path, grid.shape, place) for path in turning]
        side = followed.index(max(followed))
        step, held = turning[side][followed[side]]
        turned = open_ & _all(turning[side][: followed[side]], grid.shape) & ~held
        yield Missing(side, step, _key(paths[side], step), _nearest(grid, turned))
        open_ &= ~turned


def _held(step: Step, grid: Grid) -> Any:
    """Where a condition turns out as it did."""
    return grid.outcomes(step.expression) == step.condition.outcome


def _all(path: Sequence[tuple[Step, Any]], shape: Sequence[int]) -> Any:
    found = np.ones(shape, bool)
    for _, held in path:
        found &= held
    return found


def _count(path: Sequence[tuple[Step, Any]], shape: Sequence[int], place: Any) -> int:
    """How many conditions of a path hold at a place before one does not."""
    found = (bool(np.broadcast_to(held, shape)[tuple(place)]) for _, held in path)
    return next((count for count, holds in enumerate(found) if not holds), len(path))


def _key(path: Path, turned: Step) -> tuple[Any, ...]:
    before = tuple((*step.place, step.condition.outcome) for step in path if step.index < turned.index)
    return (*before, (*turned.place, not turned.condition.outcome))


def _nearest(grid: Grid, places: Any) -> list[Sizes]:
    found = np.argwhere(places)
    return [grid.point(place) for place in found[found.sum(axis=1).argsort(kind="stable")]]


def grids(paths: Sequence[Path], axes: Sequence[Axis], start: Sizes) -> Iterator[Grid]:
    """Sizes of each axis, of each two, and of all together: near the start, and around the numbers in conditions.

    Where several axes move, there is a size for each combination of outcomes that one of them decides.
    """
    expressions = {form_of(step.expression).key: step.expression for path in paths for step in path}
    moving = {leaf.operands[0] for e in expressions.values() for leaf in leaves_of(e)}
    columns = {}
    for axis in axes:
        if axis.label in moving:
            own = [e for e in expressions.values() if any(leaf.operands[0] == axis.label for leaf in leaves_of(e))]
            numbers = sorted(set().union(*map(constants_of, own)))
            columns[axis.label] = [start[axis.label], *candidates(axis, start[axis.label], numbers)]
    single = {label: Grid(start, {label: column}) for label, column in columns.items()}
    yield from single.values()
    first = {label: _representatives(grid, expressions.values()) for label, grid in single.items()}
    for pair in itertools.combinations(columns, 2):
        yield Grid(start, {label: [*dict.fromkeys([*first[label], *columns[label]])][:SMALL] for label in pair})
    if len(columns) > 2:
        most = int(MOST_TOGETHER ** (1 / len(columns)))
        yield Grid(start, {label: sizes[:most] for label, sizes in first.items()})


def _representatives(grid: Grid, expressions: Iterable[SizeExpr]) -> list[int]:
    """The first size of an axis at each combination of outcomes."""
    (column,) = grid.columns.values()
    outcomes = [np.broadcast_to(grid.outcomes(expression), grid.shape) for expression in expressions]
    found: dict[tuple[bool, ...], int] = {}
    for place, size in enumerate(column):
        found.setdefault(tuple(bool(outcome[place]) for outcome in outcomes), size)
    return list(found.values())
