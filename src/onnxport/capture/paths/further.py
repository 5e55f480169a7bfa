"""Chooses further runs of a model: for other outcomes of conditions, and other values of lost numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes, shown
from onnxport.capture.build.choices import Turned, Unexplained
from onnxport.capture.build.decisions import Path, Step, Tree, follows_axes, renamed, tree_of
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.coverage import Grid, Missing, Rows, Triples, grids, held_by, key_of, missing
from onnxport.capture.paths.dropped_operands import Asked, asked, with_followed_operands
from onnxport.capture.paths.learning import converting_modules
from onnxport.capture.paths.losses import Losses, further_points, points_of_keys
from onnxport.capture.paths.merge import repeats
from onnxport.capture.paths.path_runs import PathRun, shown_line, too_many
from onnxport.capture.paths.runs import MOST_FOR_TRIPLES, MOST_SIDES, TINY, TINY_FOR_TRIPLES, Runs
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.record.record import Record
from onnxport.capture.sizes.record_points import RecordPoints
from onnxport.errors import DynamicAxisError
from onnxport.graph.sizes import SizeExpr, axis
from onnxport.graph.sizes.canonical import form_of

# A graph, the points that it was evaluated at, and these as rows.
Alone: TypeAlias = "tuple[Built, RecordPoints, list[Sizes]]"


@dataclass(frozen=True)
class Known:
    """What a run tells: its conditions, the numbers that it lost, and the conditions that turn at rows, where only
    these are known, with the rows."""

    path: Path
    lost: list[SizeExpr]
    turned: list[tuple[Step, list[Sizes]]]
    on_sizes: list[Asked]  # the conditions that follow from the axes


class FurtherRuns:
    """Adds runs. ``built_alone`` gives the graph of a side, with the expressions of its conditions."""

    def __init__(self, runs: Runs, built_alone: Callable[[PathRun], Alone]) -> None:
        self.runs = runs
        self.losses: Losses = ()  # of the last graph
        self.notes: list[str] = []
        self.agreeing: set[Any] = set()  # forms of equalities that hold wherever the model can be run
        self._of_all: Known | None = None  # the conditions of the graph of all runs, where they do not cover all paths
        self._built_alone = built_alone
        self._known: dict[int, Known] = {}  # by the runs
        self._made_grids: dict[Any, list[Grid]] = {}  # by the conditions and axes
        self._refused: set[tuple[Any, ...]] = set()  # paths on which the model refuses its inputs

    # What is known of the runs

    @property
    def by_triples(self) -> bool:
        """Whether the runs have all triples of outcomes of conditions, as there are too many paths."""
        return self._of_all is not None

    @property
    def most_sides(self) -> int:
        return MOST_FOR_TRIPLES if self.by_triples else MOST_SIDES

    def know_all(self, alone: Alone) -> None:
        """Note the conditions and lost numbers of the graph of all runs."""
        if self.by_triples:
            self._of_all = self._told(alone)

    def _told(self, alone: Alone) -> Known:
        """The conditions and lost numbers of a graph."""
        leaves = leaves_by_label(self.runs.axes)
        built, points, rows = alone
        lost = dict.fromkeys(expression for _, expression in built.losses if follows_axes(expression, leaves))
        path = [step.over(leaves) for step in built.path]
        return Known(
            path,
            [cast("SizeExpr", renamed(expression, leaves)) for expression in lost],
            list(_turned(built.path, leaves, points, rows)),
            self._asked_of_axes(path),
        )

    def _asked_of_axes(self, path: Path) -> list[Asked]:
        labels = leaves_by_label(self.runs.axes)
        return asked([step for step in path if follows_axes(step.expression, labels)])

    def forget(self) -> None:
        """Forget what is known: the axes have changed."""
        self._known.clear()
        self._of_all = None

    def learn(self) -> None:
        """Make all runs again if the last is the first to convert a number in some module, to follow it there."""
        side = self.runs.sides[-1]
        if self._is_repetition(side):
            return
        built, points, _ = self._built_alone(side)
        if self.runs.learns(converting_modules(built, points.dead), (), ()):
            self.runs.make_again()
            self.forget()

    def _all_known(self) -> list[Known]:
        if self._of_all is not None:
            return [self._of_all]
        for side in self.runs.sides:
            if id(side.run) not in self._known and not self._is_repetition(side):
                self._known[id(side.run)] = self._told(self._built_alone(side))
        return [self._known[id(side.run)] for side in self.runs.sides]

    def _is_repetition(self, side: PathRun) -> bool:
        """Whether an earlier run did the same; its expressions are then used for this one, too."""
        for earlier in self.runs.sides:
            known = self._known.get(id(earlier.run))
            if known is None or known.turned or not repeats(earlier.run.record, side.run.record):
                continue
            asked = side.run.record.conditions
            path = [replace(step, condition=condition) for step, condition in zip(known.path, asked, strict=True)]
            self._known[id(side.run)] = replace(known, path=path, on_sizes=self._asked_of_axes(path))
            return True
        return False

    def paths(self) -> list[Path]:
        return [known.path for known in self._all_known()]

    def tree(self) -> Tree:
        return tree_of(dict(enumerate(self.paths())))

    def outcomes(self) -> list[dict[Any, bool]]:
        """The outcomes of the conditions on axes that each run asks, by their forms."""
        labels = leaves_by_label(self.runs.axes)
        return [
            {form_of(s.expression).key: s.condition.outcome for s in path if follows_axes(s.expression, labels)}
            for path in self.paths()
        ]

    def asking(self, base: Record) -> list[set[int]]:
        """The conditions of a record that each run asks: those on lines that compare as often in it."""
        usual = _places(base)
        asked = [_places(side.run.record) for side in self.runs.sides]
        return [
            {i for i, one in enumerate(base.conditions) if own[one.source, one.op] == usual[one.source, one.op]}
            for own in asked
        ]

    def asks_others(self, base: Record, rows: Sequence[Sizes]) -> bool:
        """Whether a run asks a condition that turns, on a line where a record does not ask it."""
        others = [step.expression for step in self._others(_places(base))]
        grids = list(self._grids([self._on_sizes()[0]], rows)) if others else []
        return any(not (held := grid.values(e)).all() and held.any() for e in others for grid in grids)

    def open_rows(self, rows: Sequence[Sizes]) -> dict[int, Turned]:
        """The evaluation points at which no run is valid."""
        found: dict[int, Turned] = {}
        for one in missing(self._on_sizes(), Rows(rows)) if self.runs.axes and not self.by_triples else ():
            found.update({rows.index(point): Turned(one.step.condition) for point in one.points})
        return found

    def _on_sizes(self) -> list[list[Step]]:
        """The conditions of the runs that follow from the axes."""
        all_known = self._all_known()
        lost = [expression for known in all_known for expression in known.lost]
        candidates = list(dict.fromkeys([*leaves_by_label(self.runs.axes).values(), *lost]))
        points = [side.stands_for for side in self.runs.sides]
        return with_followed_operands([known.on_sizes for known in all_known], points[: len(all_known)], candidates)

    # Further ones

    def add_side(self, rows: Sequence[Sizes]) -> bool:
        """Run the model at a point at which no run is valid; False if there is none."""
        paths = self._on_sizes()
        if len(paths) == 1 and self._are_too_many(paths[0], rows):
            self._of_all = self._all_known()[0]
        asked = [*paths[0], *self._others(Counter(step.place for step in paths[0]))] if self.by_triples else []
        for grid in self._grids(paths, rows):
            for one in self._triples(asked).missing(grid) if self.by_triples else missing(paths, grid):
                if one.key not in self._refused and self._run_side(one):
                    return True
        self._check_turned()
        return False

    def _are_too_many(self, path: Path, rows: Sequence[Sizes]) -> bool:
        """Whether the conditions of a run, if they are the same on all paths, lead to too many."""
        if 2 ** len(path) <= MOST_SIDES:
            return False
        triples = self._triples(path)
        return any(triples.count(grid) > MOST_SIDES for grid in self._grids([path], rows))

    def _others(self, usual: Counter[Any]) -> list[Step]:
        """The conditions on axes of runs that ask them more often than is usual on their lines."""
        labels, found = leaves_by_label(self.runs.axes), list[Step]()
        for side in self.runs.sides:
            further = _places(side.run.record) - usual
            usual = usual + further
            path = self._told(self._built_alone(side)).path if further else ()
            found += [s for s in path if s.place in further and follows_axes(s.expression, labels)]
        return found

    def _triples(self, path: Path) -> Triples:
        return Triples(path, [side.stands_for for side in self.runs.sides])

    def _grids(self, paths: Sequence[Path], rows: Sequence[Sizes]) -> Iterator[Grid]:
        if self.runs.axes:
            conditions = frozenset(form_of(step.expression).key for path in paths for step in path)
            ranges = tuple((axis.label, axis.low, axis.high, self.runs.start[axis.label]) for axis in self.runs.axes)
            key = conditions, ranges
            if key not in self._made_grids:
                self._made_grids[key] = list(grids(paths, self.runs.axes, self.runs.start))
            yield from self._made_grids[key]
            yield Rows(rows)

    def _check_turned(self) -> None:
        """A condition on sizes that are known at rows only turns at no row that the model takes."""
        for side, known in enumerate(self._all_known()):
            for step, points in known.turned:
                one = Missing(side, step, key_of(known.path, step, not step.condition.outcome), points)
                if one.key not in self._refused and self._run_side(one):
                    raise DynamicAxisError(
                        f"{shown_line(step.condition.source)}: a condition has another outcome at {shown(points[0])}. "
                        "It compares a number that comes from sizes through the content of a tensor, so it is not "
                        "known at which other sizes it does. Compute the number from x.shape with plain arithmetic, or "
                        "leave the axis static."
                    )

    def _run_side(self, one: Missing) -> bool:
        """Run the model where a condition turns, at the nearest point or a farther one; False if it refuses all."""
        refusal: Exception | None = None
        ran = [side.stands_for for side in self.runs.sides]
        points = [point for point in one.points if point not in ran]
        tiny = TINY_FOR_TRIPLES if self.by_triples else TINY
        bearable = [point for point in points if self.runs.is_bearable(point, tiny)]
        known = any(key[-1] == one.key[-1] for key in self._refused)  # the same condition, after others
        for point in bearable[:1] if known else [*bearable[:1], *bearable[1:][-1:]]:
            refusal = self.runs.refused_at(point) or self.runs.run_at(point)
            if refusal is None:
                return True
        if refusal is None and points:  # the condition turns only where a run would be too large
            if self.by_triples:
                raise too_many(self.runs.sides[0].run.record, MOST_SIDES)
            refusal = self.runs.force(self.runs.sides[one.side], one.step.index, points[0])
            if refusal is None:
                return True
        self._refused.add(one.key)
        where = shown_line(one.step.condition.source)
        self.notes.append(f"{where}: sizes such as {shown(one.points[0])} are refused by the model: {refusal}")
        return False

    def points_alike(self, side: PathRun) -> list[Sizes]:
        """Further points on the path of a run, if no other run was on it."""
        if side.forced or not self.runs.axes or self.by_triples:
            return []
        path = self._on_sizes()[self.runs.sides.index(side)]
        held = held_by(path, Rows([other.stands_for for other in self.runs.sides]))
        if held.sum() > 1:
            return []
        axes, start = self.runs.axes, side.point
        grid = Rows([*rows_at.doubled(axes, start), *rows_at.nearby(axes, start), *rows_at.least(axes)])
        points = grid.points(held_by(path, grid))
        return [point for point in points if point != start and self.runs.is_bearable(point)]

    def explain(self, found: Unexplained) -> bool:
        """Run the model where that helps to explain a number; False if there is no such point.

        A point that the model refuses helps, too: functions that differ only there need not be distinguished.
        """
        outside = self.runs.outside()
        told = self._add_apart(found.same)
        if not told and self.by_triples and isinstance(found.same, SizeExpr):
            same = renamed(found.same, leaves_by_label(self.runs.axes))
            self.agreeing.add(form_of(cast("SizeExpr", same)).key)
            return True
        return told or self.add_for_losses(self.losses, more=True) or self.runs.outside() != outside

    def add_for_losses(self, losses: Losses, *, more: bool = False) -> bool:
        """Run the model where numbers differ whose expression was lost; whether there was such a point.

        Where what they became is not explained, ``more`` of their values are tried.
        """
        for loss, points in points_of_keys(losses, self.runs.axes, self.runs.start):
            if self.runs.add_one_of(points):
                return True
            if points and not any(point in self.runs.points or self.runs.refused_at(point) for point in points):
                raise DynamicAxisError(
                    f"{shown_line(loss.source)}: a size is looked up among numbers, and {shown(points[0])} is too far "
                    "from the example to try what that leads to. Compare the size instead, or give the axis a smaller "
                    "range."
                )
        alike: dict[tuple[Any, ...], list[int]] = {}  # the sides of each path
        on_sizes = self._on_sizes()
        for side, path in enumerate(on_sizes):
            # Both branches of a condition on data may ask the same behind it.
            asked = dict.fromkeys((step.place, step.condition.outcome, form_of(step.expression).key) for step in path)
            alike.setdefault(tuple((*index, outcome) for index, outcome, _ in asked), []).append(side)
        for sides in alike.values():
            ran = [self.runs.sides[side].stands_for for side in sides]
            for number in self._all_known()[sides[0]].lost:
                if self.runs.add_one_of(further_points(number, on_sizes[sides[0]], self.runs.axes, ran, more=more)):
                    return True
        return False

    def _add_apart(self, same: Any) -> bool:
        """Run the model where two expressions differ, as far away as it can be."""
        axes, start = self.runs.taken(), self.runs.start
        if not follows_axes(same, leaves_by_label(axes)):
            return False
        far = Rows(sorted(rows_at.farthest(axes, start), key=lambda point: -sum(point.values())))
        points = [*far.points(~far.values(same)), *turning_points(same, True, axes, start)]
        return self.runs.add_one_of(points)


def _places(record: Record) -> Counter[Any]:
    """How often a run compares sizes on each line."""
    return Counter((condition.source, condition.op) for condition in record.conditions)


def leaves_by_label(axes: Sequence[Axis]) -> dict[str, SizeExpr]:
    """The sizes of axes, of whatever values, so that the conditions of all runs can be compared."""
    values = {one.label: [7 * count + 3 * index for count in range(1, 5)] for index, one in enumerate(axes)}
    return {label: axis(label, at) for label, at in values.items()}


def _turned(
    path: Path, labels: Mapping[str, Any], points: RecordPoints, rows: Sequence[Sizes]
) -> Iterator[tuple[Step, list[Sizes]]]:
    """The conditions of a record that follow from more than axes, and turn at rows on its path."""
    ends = {index: getattr(reason, "index", None) or -1 for index, reason in points.dead.items()}
    held = list(range(len(rows)))
    for step in path:
        if isinstance(step.expression, SizeExpr) and not points.follows_data(step.expression):
            held = [index for index in held if ends.get(index, step.index) >= step.index]
            turned = [index for index in held if step.expression.at[index] != step.condition.outcome]
            if turned and not follows_axes(step.expression, labels):
                yield step, [rows[index] for index in turned]
            held = [index for index in held if index not in turned]
