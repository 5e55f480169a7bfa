"""Points in the declared ranges that no run of a model covers: some condition has another outcome there."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.decisions import Path, Step
from onnxport.capture.paths.turning import SMALL, candidates, constants_of
from onnxport.graph.sizes import SizeExpr, leaves_of
from onnxport.graph.sizes.arrays import values_over
from onnxport.graph.sizes.canonical import form_of

# Where one axis varies alone, every size up to this one is tried.
EVERY = 2**13
# With more than two axes, this many combinations of their sizes are tried.
MOST_TOGETHER = 2**14
# How many points with an uncovered triple are tried, if the model refuses the first ones.
MOST_TRIED = 3
# The triples of so many points are counted at once, which bounds the memory.
MOST_AT_ONCE = 2**10


@dataclass(frozen=True)
class Missing:
    """A path that no run took: that of an earlier run up to a condition, which has the other outcome at the ``points``,
    nearest first.

    ``key`` identifies the conditions up to there and their outcomes.
    """

    side: int
    step: Step
    key: tuple[Any, ...]
    points: list[Sizes]


class Grid:
    """All combinations of sizes of some axes; the others are as at the start."""

    def __init__(self, start: Sizes, columns: Mapping[str, Sequence[int]]) -> None:
        self.shape = tuple(map(len, columns.values()))
        self._start = start
        self._columns = columns
        self._sizes = {label: np.asarray(size) for label, size in start.items()}
        self._sizes |= dict(zip(columns, np.ix_(*map(np.asarray, columns.values())), strict=True))
        self._known: dict[bytes, Any] = {}

    def values(self, expression: SizeExpr) -> Any:
        """The values of an expression over axes, in a shape that broadcasts to the grid's."""
        key = form_of(expression).key
        if key not in self._known:
            self._known[key] = values_over(expression, self._sizes)
        return self._known[key]

    def points(self, indices: Any) -> list[Sizes]:
        """Some of the marked points, the nearest to the start first."""
        found = np.argwhere(np.broadcast_to(indices, self.shape))
        return [self.point(index) for index in found[found.sum(axis=1).argsort(kind="stable")][:SMALL]]

    def point(self, index: Sequence[int]) -> Sizes:
        sizes = {label: int(column[at]) for (label, column), at in zip(self._columns.items(), index, strict=True)}
        return {**self._start, **sizes}


class Rows(Grid):
    """Some points."""

    def __init__(self, points: Sequence[Sizes]) -> None:
        super().__init__({}, {})
        self.shape = (len(points),)
        self._points = points
        self._sizes = {label: np.asarray([point[label] for point in points]) for label in points[0]}

    def points(self, indices: Any) -> list[Sizes]:
        return [point for point, is_marked in zip(self._points, indices, strict=True) if is_marked]


def missing(paths: Sequence[Path], grid: Grid) -> Iterator[Missing]:
    """The paths at points of a grid that no run took. ``paths`` are those of all runs, of conditions on axes alone."""
    turning = [[(step, held) for step in path if not (held := _held(step, grid)).all()] for path in paths]
    open_ = np.ones(grid.shape, bool)
    for path in turning:
        open_ &= ~_all(path, grid.shape)
    while open_.any():
        indices = np.argwhere(open_)
        index = indices[indices.sum(axis=1).argmin()]
        followed = [_count(path, grid.shape, index) for path in turning]
        side = followed.index(max(followed))
        step, held = turning[side][followed[side]]
        turned = open_ & _all(turning[side][: followed[side]], grid.shape) & ~held
        key = key_of(paths[side], step, not step.condition.outcome)
        yield Missing(side, step, key, grid.points(turned))
        open_ &= ~turned


class Triples:
    """The triples of condition outcomes that occurred in some run.

    Each further independent condition doubles the number of paths. Runs that cover every triple of outcomes show what
    each condition does, and whether what two of them do together depends on a third.
    """

    def __init__(self, path: Path, ran: Sequence[Sizes]) -> None:
        steps = {form_of(step.expression).key: step for step in path}
        self._steps, self._forms = list(steps.values()), list(steps)
        self._of_runs = self._outcomes(Rows(ran))
        hot = _one_hot(self._of_runs)
        self._unseen = hot.T @ _products(hot) == 0

    def count(self, grid: Grid) -> int:
        """How many combinations of outcomes there are at the points of a grid."""
        return len(np.unique(self._outcomes(grid), axis=0))

    def missing(self, grid: Grid) -> Iterator[Missing]:
        """Points of a grid with uncovered triples, those with most of them first."""
        outcomes, which = np.unique(self._outcomes(grid), axis=0, return_inverse=True)
        hot, untried = _one_hot(outcomes), np.ones(len(outcomes), bool)
        parts = np.array_split(hot, len(hot) // MOST_AT_ONCE + 1)
        tries = np.zeros_like(self._unseen, np.int8)
        while True:
            unseen = (self._unseen & (tries < MOST_TRIED)).astype(np.float32)
            new = np.where(untried, np.concatenate([_count_of(part, unseen) for part in parts]), 0)
            best = int(new.argmax())
            if not new[best]:
                return
            untried[best] = False
            tries += np.outer(hot[best], _products(hot[best : best + 1])).astype(np.int8)
            step = self._steps[int((outcomes[best] != self._of_runs[0]).argmax())]
            decided = frozenset(zip(self._forms, outcomes[best].tolist(), strict=True))
            key = decided, (*step.place, not step.condition.outcome)
            yield Missing(0, step, key, grid.points((which == best).reshape(grid.shape)))

    def _outcomes(self, grid: Grid) -> Any:
        """A row for each point, a column for each condition."""
        columns = [np.broadcast_to(grid.values(step.expression), grid.shape).ravel() for step in self._steps]
        return np.stack(columns, axis=1)


def _one_hot(outcomes: Any) -> Any:
    return np.concatenate([outcomes, ~outcomes], axis=1).astype(np.float32)


def _products(hot: Any) -> Any:
    """The pairs of outcomes in each row, as columns."""
    return (hot[:, :, None] * hot[:, None, :]).reshape(len(hot), -1)


def _count_of(hot: Any, unseen: Any) -> Any:
    """How many of the triples in each row are unseen."""
    return ((hot @ unseen) * _products(hot)).sum(axis=1)


def held_by(path: Path, grid: Grid) -> Any:
    """The points at which all conditions of a path have the outcomes that they had in its run."""
    return _all([(step, _held(step, grid)) for step in path], grid.shape)


def _held(step: Step, grid: Grid) -> Any:
    """The points at which a condition has the outcome that it had."""
    return grid.values(step.expression) == step.condition.outcome


def _all(path: Sequence[tuple[Step, Any]], shape: Sequence[int]) -> Any:
    found = np.ones(shape, bool)
    for _, held in path:
        found &= held
    return found


def _count(path: Sequence[tuple[Step, Any]], shape: Sequence[int], index: Any) -> int:
    """At each point, how many conditions of a path hold before the first that does not."""
    found = (bool(np.broadcast_to(held, shape)[tuple(index)]) for _, held in path)
    return next((count for count, holds in enumerate(found) if not holds), len(path))


def key_of(path: Path, step: Step, outcome: bool) -> tuple[Any, ...]:
    """The conditions of a path up to one of them, and their outcomes."""
    before = tuple((*one.place, one.condition.outcome) for one in path if one.index < step.index)
    return (*before, (*step.place, outcome))


def grids(paths: Sequence[Path], axes: Sequence[Axis], start: Sizes, lost: Sequence[SizeExpr] = ()) -> Iterator[Grid]:
    """Grids over each axis, each pair of axes, and all axes: sizes near the start and around the numbers in conditions.

    Where several axes vary, each axis has one size for each combination of outcomes that it decides alone.
    """
    given = [*(step.expression for path in paths for step in path), *lost]
    expressions = {form_of(expression).key: expression for expression in given}
    moving = {leaf.operands[0] for e in expressions.values() for leaf in leaves_of(e)}
    near, single = {}, {}
    for axis in axes:
        if axis.label in moving:
            own = [e for e in expressions.values() if any(leaf.operands[0] == axis.label for leaf in leaves_of(e))]
            numbers = sorted(set().union(*map(constants_of, own)))
            size = start[axis.label]
            near[axis.label] = [size, *candidates(axis, size, numbers)]
            single[axis.label] = _with_every(axis, near[axis.label])
    first = {}
    for label, column in single.items():
        grid = Grid(start, {label: column})
        yield grid
        first[label] = _representatives(grid, column, expressions.values())
    for pair in itertools.combinations(single, 2):
        yield Grid(start, {label: [*dict.fromkeys([*first[label][:SMALL], *near[label][:SMALL]])] for label in pair})
    if len(single) > 2:
        most = int(MOST_TOGETHER ** (1 / len(single)))
        yield Grid(start, {label: sizes[:most] for label, sizes in first.items()})


def _with_every(axis: Axis, sizes: Sequence[int]) -> Any:
    """These sizes of an axis, the first of which is that of the start, and all small ones, the nearest first."""
    every = range(axis.low, min(axis.high or EVERY, EVERY) + 1)
    others = sorted({size for size in sizes if size not in every})
    found = np.append(np.arange(every.start, every.stop), np.asarray(others, np.int64))
    return found[np.lexsort((abs(found - sizes[0]), (found < 2) & (found != sizes[0])))]


def _representatives(grid: Grid, column: Any, expressions: Iterable[SizeExpr]) -> list[int]:
    """The first size of an axis at each combination of outcomes."""
    told = np.zeros(grid.shape, np.int64)  # a number for each combination of outcomes so far
    for expression in expressions:
        outcome = np.broadcast_to(grid.values(expression), grid.shape)
        if (outcome != outcome[0]).any():
            kinds, which = (2, outcome) if outcome.dtype == bool else _numbered(outcome)
            if told.max() >= np.iinfo(np.int64).max // kinds:
                _, told = _numbered(told)
            told = told * kinds + which
    _, indices = np.unique(told, return_index=True)
    return [int(column[index]) for index in sorted(indices)]


def _numbered(values: Any) -> tuple[int, Any]:
    """How many values there are, and the number of each among them."""
    kinds, which = np.unique(values, return_inverse=True)
    return len(kinds), which
