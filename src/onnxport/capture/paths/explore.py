"""Captures a model with dynamic axes: from one recorded run, and further ones only where that one is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.axes import axis as sizes
from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.axes.relations import Relations, relations
from onnxport.capture.build.choices import Sides, Turned, Unexplained
from onnxport.capture.build.graph import Built
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.paths.branching import Branched, at_living_rows, branched
from onnxport.capture.paths.caches import as_later_calls
from onnxport.capture.paths.checks import points_to_check
from onnxport.capture.paths.forced.whiles import without_notes
from onnxport.capture.paths.further import Alone, FurtherRuns, leaves_by_label
from onnxport.capture.paths.learning import converting_modules, counting_lines, deciding_functions
from onnxport.capture.paths.loops.over_sizes import loops
from onnxport.capture.paths.merge import Difference, decides_alike, merged, operators
from onnxport.capture.paths.path_runs import (
    Attempt,
    Disputed,
    Found,
    PathRun,
    check_data,
    check_varying,
    other_path,
    parted,
    too_many,
    unexplained,
)
from onnxport.capture.paths.readings import Readings
from onnxport.capture.paths.runs import Runs, results_at
from onnxport.capture.record.record import Record
from onnxport.capture.record.run import Run
from onnxport.errors import DynamicAxisError
from onnxport.graph.equality import is_close
from onnxport.graph.ir import Graph
from onnxport.graph.restrict import restrict

# The number of points at which the model is run to find out whether it accepts sizes of some kind.
MOST_TRIED = 3


class Explorer:
    """One model with its declared axes."""

    def __init__(self, runner: ModelRunner, axes: Sequence[Axis]) -> None:
        self.runs = Runs(runner, axes)
        self.further = FurtherRuns(self.runs, self._built_alone)
        self.narrowed: list[str] = []
        self.readings = Readings(self.runs)
        self._alone: dict[int, tuple[Run, Alone]] = {}  # the graphs of single runs
        self._preferred: PathRun | None = None  # among paths with equally many calls
        self._tried_bases: list[PathRun] = []
        self._above_one: set[str] = set()  # axes whose size 1 leads to another path

    def explore(self) -> Found:
        base, stale = as_later_calls(self.runs, self.runs.first())
        self.narrowed += stale
        self.runs.sides = [base]
        self.runs.start = base.point
        attempt = self._learned(base)
        while self.runs.learns_loops(attempt.built.losses):
            attempt = self._attempt()
        related = Relations(self.runs.axes)
        doubled = rows_at.doubled(self.runs.axes, base.point)
        if any(self._reason(attempt.dead.get(attempt.rows.index(row)), row) is not None for row in doubled):
            taken: list[Sizes] = []
            related = relations(self.runs.axes, base.point, lambda rows: self._refusal(base, rows, taken))
            self.runs.axes = related.axes
            self.readings.further += [{axis.label: row[axis.label] for axis in related.axes} for row in taken]
            self._alone.clear()
            self.further.forget()
            base.point = self.runs.start = {axis.label: base.point[axis.label] for axis in self.runs.axes}
            if related.static:
                base.run = self.runs.record(base.point)
            attempt = self._attempt()
        built, rows, repetitions = self._settled(attempt)
        checks, spare = points_to_check(self.runs, built, rows, repetitions, self._above_one)
        return Found(
            self._base().run, built, related, rows, self.runs.points, checks, spare, self.narrowed,
            [*self.runs.notes, *self.further.notes], list(self.runs.decided.values()), bool(self.runs.merged),
        )  # fmt: skip

    def _learned(self, base: PathRun) -> Attempt:
        """The first attempt, after runs with everything learned from its graph: first with conditions on data as the
        example decides them, then with both branches, each of which takes a run."""
        run = base.run
        while True:
            base.run = run
            if not self.runs.joined:
                undecided = without_notes(run.record, run.record.decisions)
                base.run = self.runs.with_loops(replace(run, record=undecided))
            attempt = self._attempt()
            if self._learns(attempt):
                run = self.runs.record_again(base.point)
            elif self.runs.joined:
                return attempt
            else:
                self.runs.joined = True
                if not run.record.decisions:
                    return attempt
                run = self.runs.with_both_sides(run, base.point)

    def _learns(self, attempt: Attempt) -> bool:
        modules = converting_modules(attempt.built, attempt.dead)
        return self.runs.learns(modules, deciding_functions(attempt.built), counting_lines(attempt.built))

    # Which axes vary

    def _refusal(self, base: PathRun, rows: Sequence[Sizes], taken: list[Sizes]) -> Exception | None:
        """None if the model accepts one of some points, which is added to those ``taken``; else its error at the first.

        The record shows where it is valid. Elsewhere the model may take another path: it is run at a few such points.
        """
        _, points, _ = self.readings.build(base.run.record, base.run, [base.point, *rows], Sides())
        dead = [points.dead.get(index) for index in range(1, len(rows) + 1)]
        if None in dead:
            taken.append(rows[dead.index(None)])
            return None
        turned = [row for row, reason in zip(rows, dead, strict=True) if isinstance(reason, Turned)]
        tried = [rows[0], *(row for row in turned if row != rows[0])][:MOST_TRIED]
        reasons = [self._reason(dead[rows.index(row)], row) for row in tried]
        return None if None in reasons else reasons[0]

    def _reason(self, dead: Any, row: Sizes) -> Exception | None:
        """The model's error at a point at which the record is not valid; None if it takes another path there."""
        if dead is None:
            return None
        if not self.runs.is_bearable(row):
            return None if isinstance(dead, Turned) else dead
        return self.runs.refusal_at(row)

    # Building

    def _built_alone(self, side: PathRun) -> Alone:
        """The graph of a single run, evaluated at points on other paths too.

        If data decide sizes, which have to be consistent at each point, the graph of the only run ends at those points.
        """
        if id(side.run) not in self._alone:
            rows = [side.point, *(row for row in self._rows() if row != side.point)]
            ends = side.run.record.counts and len(self.runs.sides) == 1
            sides = Sides(rows=[0], open=None if ends else {})
            alone = self.readings.build(side.run.record, side.run, rows, sides)
            self._alone[id(side.run)] = side.run, alone
        return self._alone[id(side.run)][1]

    def _attempt(self) -> Attempt:
        """The records of all paths merged into one, and its graph; or the number that they do not explain."""
        record, disputed = self._merged()
        base = self._base()
        if record is base.run.record and (not record.counts or len(self.runs.sides) == 1):
            built, points, rows = self._built_alone(base)
            dead = {**points.dead, **self.further.open_rows(rows)}
        else:
            rows = self._rows()
            try:
                built, points, rows = self.readings.build(record, base.run, rows, self._sides(rows))
            except Unexplained as found:
                return Attempt(record, disputed, rows, unexplained=found)
            dead = points.dead
            self.further.know_all((built, points, rows))
        self.further.losses = built.losses
        self.runs.shapes = [
            value.shape for node in built.graph.block.all_nodes() for value in node.outputs if value.is_tensor
        ]
        return Attempt(record, disputed, rows, built, dead)

    def _settled(self, attempt: Attempt) -> tuple[Built, list[Sizes], list[PathRun]]:
        """The graph of all paths, after further runs where a condition turns within the declared ranges; its evaluation
        points; and the runs that repeat others, at whose points it was not evaluated."""
        try:
            attempt, built, alive = self._merged_graph(attempt)
        except (DynamicAxisError, Unexplained):
            if (found := self._with_branches()) is None:
                raise
            attempt = Attempt(self._base().run.record, [], found.rows, found.built, found.dead)
            built, alive = at_living_rows(found, self._branched)
        check_varying(self.runs.axes, alive, list(attempt.dead.values()))
        self._check_dead(attempt)
        repetitions = [side for side in self.runs.sides if not side.forced and side.point not in alive]
        return built, alive, repetitions

    def _merged_graph(self, attempt: Attempt) -> tuple[Attempt, Built, list[Sizes]]:
        """The graph of a record that is valid on all paths, and its evaluation points."""
        while True:
            attempt = self._extended(attempt)
            built, alive = self._at_living_rows(attempt)
            if not self._has_other_base(built.graph, attempt.disputed):
                if not self.readings.takes_apart(built.graph, attempt.rows):
                    return attempt, built, alive
                self._alone.clear()
            attempt = self._attempt()

    def _with_branches(self) -> Branched | None:
        """The paths as branches of one graph, where no single record is valid on all of them."""
        if len(self.runs.sides) == 1 or self.further.by_triples:
            return None
        found = self._branched(self._rows())
        replays = found and all(side.forced or self._replays(found.built.graph, side) for side in self.runs.sides)
        return found if replays else None

    def _branched(self, rows: Sequence[Sizes]) -> Branched | None:
        return branched(self.runs, self.further, self._built_alone, rows)

    def _extended(self, attempt: Attempt) -> Attempt:
        """An attempt after all further runs that add information."""
        while self._is_extended(attempt):
            if len(self.runs.sides) > self.further.most_sides:
                raise too_many(self.runs.sides[0].run.record, self.further.most_sides)
            attempt = self._attempt()
        return attempt

    def _at_living_rows(self, attempt: Attempt) -> tuple[Built, list[Sizes]]:
        """The graph of an attempt, restricted to the points at which it is valid."""
        built, rows, left = attempt.built, attempt.rows, attempt.dead
        while left:  # further points may come up at which sizes differ, and at which the record is not valid
            check_data(rows, left)
            living = [index for index in range(len(rows)) if index not in left]
            rows = [rows[index] for index in living]
            self._alone.clear()  # the graph of a single run may be this one
            if restrict(built.graph, living):
                break
            built, points, rows = self.readings.build(attempt.record, self._base().run, rows, self._sides(rows))
            left = points.dead
        return built, rows

    def _is_extended(self, attempt: Attempt) -> bool:
        """Run the model where the runs so far are not enough; False if there is no such point."""
        if attempt.unexplained is None and self.runs.learns_loops(attempt.built.losses):
            self.further.forget()
            return True
        count = len(self.runs.sides)
        while len(self.runs.sides) <= self.further.most_sides and self.further.add_side(self._rows()):
            self.further.learn()
        if len(self.runs.sides) > count:
            return True
        if attempt.unexplained is None:
            return self.further.add_for_losses(attempt.built.losses)
        if self.further.explain(attempt.unexplained):
            return True
        raise unexplained(attempt.unexplained, self.runs.sides) from None

    def _check_dead(self, attempt: Attempt) -> None:
        """Report points next to the example at which the record is not valid, although the model accepts them.

        A size of 1, at which an axis may be dropped or broadcast, is a warning; any other is an error. Where operators
        fail on a guessed data-dependent number, the size is not the reason.
        """
        near = [*rows_at.doubled(self.runs.axes, self.runs.sides[0].point), *rows_at.least(self.runs.axes)]
        for index, reason in attempt.dead.items():
            row = attempt.rows[index]
            if (
                isinstance(reason, Turned)
                or getattr(reason, "guessed", False)
                or row not in near
                or self._reason(reason, row) is not None
                or any(side.point == row and self._replays(attempt.built.graph, side) for side in self.runs.sides)
            ):
                continue
            message = other_path(self.runs.sides[0], row, reason, [loss for loss, _ in self.further.losses])
            if not self.runs.of_size_one(row):
                raise DynamicAxisError(f"{message}. Write this so that it does the same, or leave the axis static.")
            self.narrowed.append(f"{message}, which the file does not follow")

    def _sides(self, rows: Sequence[Sizes]) -> Sides:
        """The conditions that separate the paths, and the index of each path's point among the evaluation points."""
        if len(self.runs.sides) == 1:
            return Sides(rows=[0])
        points = [None if side.forced else side.point for side in self.runs.sides]
        indices = [rows.index(point) if point is not None and point in rows else None for point in points]
        open_, outside = self.further.open_rows(rows), self.runs.outside()
        further, base = self.further, self._base().run.record
        told = Sides(further.tree(), indices, open_, outside, outcomes=further.outcomes())
        if not further.by_triples:
            return replace(told, leaves=leaves_by_label(self.runs.axes))
        return replace(
            told, by_triples=True, asking=further.asking(base), asks_others=further.asks_others(base, rows),
            agreeing=further.agreeing, leaves=leaves_by_label(self.runs.axes),
        )  # fmt: skip

    def _base(self) -> PathRun:
        """The path with the most calls: it may have operators that do nothing on the others.

        One at a size of 1, where an axis may be dropped or broadcast, is valid at no other size.
        """

        def fullness(side: PathRun) -> tuple[bool, int, int, bool, int]:
            record = side.run.record
            asked = len(record.conditions) if self.further.by_triples else 0
            full = loops(record), len(record.calls)
            return not self.runs.of_size_one(side.point), *full, side is self._preferred, asked

        return max(self.runs.sides, key=fullness)

    def _prefer_other_base(self) -> bool:
        """Use another path with the same operators as the base, the one with the most conditions first."""
        base = self.runs.sides[0]
        for other in sorted(self.runs.sides[1:], key=lambda side: -len(side.run.record.conditions)):
            if other not in self._tried_bases and operators(other.run.record) == operators(base.run.record):
                self._tried_bases += [base, other]
                self._preferred = other
                return True
        return False

    def _merged(self) -> tuple[Record, list[Disputed]]:
        """The base's record with choices where the others have other numbers; and the paths on which only a comparison
        of results can show whether it does the same."""
        base = self._base()
        self.runs.sides.sort(key=lambda side: side is not base)  # the base comes first
        record = base.run.record
        having = [[0] for _ in range(len(record.calls) + 1)]
        disputed: list[Disputed] = []
        for index, side in enumerate(list(self.runs.sides[1:]), start=1):
            try:
                record, is_disputed = merged(record, side.run.record, index, having)
            except Difference as difference:
                if side.forced:
                    raise parted(base, side, difference) from None
                disputed.append((side, difference))
                continue
            if is_disputed:
                disputed.append((side, None))
        return record, disputed

    def _has_other_base(self, graph: Graph, disputed: Sequence[Disputed]) -> bool:
        """Whether another record may be valid on all paths. If not, the graph gives the model's results on each
        disputed path, or that path is an error.

        Such a record is that of a run in which the conditions of both turn, or of a path with the same operators."""
        for side, difference in disputed:
            base, at_one = self.runs.sides[0], self.runs.of_size_one(side.point)
            if side.forced or (
                decides_alike(base.run.record, side.run.record)
                and self._replays(graph, side)
                and self._agrees_elsewhere(graph, side)
            ):
                continue
            moved = {label: size for label, size in side.point.items() if size != self.runs.start[label]}
            if not at_one and self.runs.add_one_of([{**base.point, **moved}]):
                return True
            if not at_one and self._prefer_other_base():
                return True
            error = parted(self.runs.sides[0], side, difference)
            labels = self.runs.of_size_one(side.point)
            if not labels or side.point == sizes.example_sizes(self.runs.axes) or self._with_branches() is not None:
                raise error
            self._above_one.update(labels)
            bounds = " and ".join(f"{label} >= 2" for label in labels)
            self.narrowed.append(f"{error} The file serves {bounds}.")
        return False

    def _replays(self, graph: Graph, side: PathRun) -> bool:
        """Whether the graph gives the results of the model's run on a path."""
        expected = [leaf for leaf in side.run.leaves if isinstance(leaf, torch.Tensor)]
        results = results_at(graph, self.runs, side.point)
        same = len(graph.block.outputs) == len(side.run.record.outputs)
        return results is not None and same and all(map(is_close, results, expected))

    def _agrees_elsewhere(self, graph: Graph, side: PathRun) -> bool:
        """Whether the graph gives what that of a side alone gives at other points of its path, at which each axis has
        another size.

        What does nothing at one point, as a pad by 0 where sizes are equal, may do something at the others.
        """
        same = set(side.point.items())
        for point in self.further.points_alike(side):
            if same <= set(point.items()):
                continue
            expected = results_at(self._built_alone(side)[0].graph, self.runs, point)
            if expected is not None:
                results = results_at(graph, self.runs, point)
                if results is None or not all(map(is_close, results, expected)):
                    return False
                same &= set(point.items())
        return True

    # Points

    def _rows(self) -> list[Sizes]:
        """The evaluation points: those of the runs, those to check at, and far ones."""
        axes, start = self.runs.axes, self.runs.sides[0].point
        rows = [start, *(side.point for side in self.runs.sides[1:] if not side.forced)]
        rows += [*rows_at.doubled(axes, start), *rows_at.least(axes), rows_at.together(axes, start)]
        largest = max((side.run.record.largest_number for side in self.runs.sides), default=0)
        rows += [*rows_at.far(axes, start), *rows_at.beyond(axes, start, largest), *self.readings.further]
        rows = [row for index, row in enumerate(rows) if row not in rows[:index] and self.runs.refused_at(row) is None]
        return rows if axes else [{}]
