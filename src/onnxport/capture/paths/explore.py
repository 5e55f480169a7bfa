"""Captures a model with dynamic axes: one recorded run, and others only where that one cannot tell."""

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
from onnxport.capture.paths.readings import Readings
from onnxport.capture.paths.runs import MOST_SIDES, Runs, results_at
from onnxport.capture.paths.sides import (
    Attempt,
    Disputed,
    Found,
    Side,
    check_data,
    check_varying,
    other_path,
    parted,
    too_many,
    unexplained,
)
from onnxport.capture.record.record import Record
from onnxport.capture.record.run import Run
from onnxport.errors import DynamicAxisError
from onnxport.graph.equality import is_close
from onnxport.graph.ir import Graph
from onnxport.graph.restrict import restrict

# How many rows of a kind the model is run at to learn whether it takes them.
MOST_TRIED = 3


class Explorer:
    """One model with its declared axes."""

    def __init__(self, runner: ModelRunner, axes: Sequence[Axis]) -> None:
        self.runs = Runs(runner, axes)
        self.further = FurtherRuns(self.runs, self._built_alone)
        self.narrowed: list[str] = []
        self.readings = Readings(self.runs)
        self._alone: dict[int, tuple[Run, Alone]] = {}  # the graphs of single runs
        self._preferred: Side | None = None  # of sides with records as full as each other
        self._tried_bases: list[Side] = []
        self._above_one: set[str] = set()  # axes at the size 1 of which the model takes another path

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

    def _learned(self, base: Side) -> Attempt:
        """The base with all that its graph tells of the model: first as data decide, and then with both sides of their
        conditions, each of which takes a run."""
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

    def _refusal(self, base: Side, rows: Sequence[Sizes], taken: list[Sizes]) -> Exception | None:
        """None if the model takes one of some rows, which goes to those ``taken``; else why it refuses the first.

        The record tells where it holds. Where it does not, the model may take another path: a few such rows are run.
        """
        _, points, _ = self.readings.build(base.run.record, base.run, [base.point, *rows], Sides())
        dead = [points.dead.get(place) for place in range(1, len(rows) + 1)]
        if None in dead:
            taken.append(rows[dead.index(None)])
            return None
        turned = [row for row, reason in zip(rows, dead, strict=True) if isinstance(reason, Turned)]
        tried = [rows[0], *(row for row in turned if row != rows[0])][:MOST_TRIED]
        reasons = [self._reason(dead[rows.index(row)], row) for row in tried]
        return None if None in reasons else reasons[0]

    def _reason(self, dead: Any, row: Sizes) -> Exception | None:
        """Why the model does not take a row at which the record says nothing; it may take another path there."""
        if dead is None:
            return None
        if not self.runs.is_bearable(row):
            return None if isinstance(dead, Turned) else dead
        return self.runs.refusal_at(row)

    # Building

    def _built_alone(self, side: Side) -> Alone:
        """The graph of a side, at rows on other sides too.

        That of a single run in which data decide sizes, which have to go together at each row, ends at those rows.
        """
        if id(side.run) not in self._alone:
            rows = [side.point, *(row for row in self._rows() if row != side.point)]
            ends = side.run.record.counts and len(self.runs.sides) == 1
            sides = Sides(rows=[0], open=None if ends else {})
            alone = self.readings.build(side.run.record, side.run, rows, sides)
            self._alone[id(side.run)] = side.run, alone
        return self._alone[id(side.run)][1]

    def _attempt(self) -> Attempt:
        """All sides as one record, and its graph, which may turn out to lack a number that the sides do not explain."""
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

    def _settled(self, attempt: Attempt) -> tuple[Built, list[Sizes], list[Side]]:
        """The graph of all sides, with further runs where a condition turns within the declared ranges; its rows, and
        the sides that do the same, and for which it was not evaluated at their points."""
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
        """The graph of a record that serves all sides, and its rows."""
        while True:
            attempt = self._extended(attempt)
            built, alive = self._at_living_rows(attempt)
            if not self._has_other_base(built.graph, attempt.disputed):
                if not self.readings.takes_apart(built.graph, attempt.rows):
                    return attempt, built, alive
                self._alone.clear()
            attempt = self._attempt()

    def _with_branches(self) -> Branched | None:
        """The sides as branches of one graph, where no record serves all of them."""
        if len(self.runs.sides) == 1 or self.further.by_pairs:
            return None
        found = self._branched(self._rows())
        replays = found and all(side.forced or self._replays(found.built.graph, side) for side in self.runs.sides)
        return found if replays else None

    def _branched(self, rows: Sequence[Sizes]) -> Branched | None:
        return branched(self.runs, self.further, self._built_alone, rows)

    def _extended(self, attempt: Attempt) -> Attempt:
        """An attempt with all the runs that tell more than those so far."""
        while self._is_extended(attempt):
            if len(self.runs.sides) > MOST_SIDES:
                raise too_many(self.runs.sides[0].run.record, MOST_SIDES)
            attempt = self._attempt()
        return attempt

    def _at_living_rows(self, attempt: Attempt) -> tuple[Built, list[Sizes]]:
        """The graph of an attempt at the rows at which it says something."""
        built, rows, left = attempt.built, attempt.rows, attempt.dead
        while left:  # further rows may come up in which sizes differ, and at which the record does not hold
            check_data(rows, left)
            living = [place for place in range(len(rows)) if place not in left]
            rows = [rows[place] for place in living]
            self._alone.clear()  # the graph of one may be this one
            if restrict(built.graph, living):
                break
            built, points, rows = self.readings.build(attempt.record, self._base().run, rows, self._sides(rows))
            left = points.dead
        return built, rows

    def _is_extended(self, attempt: Attempt) -> bool:
        """Run the model where its runs so far tell too little; False if there is no such point."""
        if attempt.unexplained is None and self.runs.learns_loops(attempt.built.losses):
            self.further.forget()
            return True
        count = len(self.runs.sides)
        while len(self.runs.sides) <= MOST_SIDES and self.further.add_side(self._rows()):
            self.further.learn()
        if len(self.runs.sides) > count:
            return True
        if attempt.unexplained is None:
            return self.further.add_for_losses(attempt.built.losses)
        if self.further.explain(attempt.unexplained):
            return True
        raise unexplained(attempt.unexplained, self.runs.sides) from None

    def _check_dead(self, attempt: Attempt) -> None:
        """Points next to the example at which the record says nothing, and which the model takes all the same.

        A size of 1, at which an axis may be dropped or broadcast, is a warning; another one is an error. Where
        operators refuse a number that was guessed for what only data tells, the size is not the reason.
        """
        near = [*rows_at.doubled(self.runs.axes, self.runs.sides[0].point), *rows_at.least(self.runs.axes)]
        for place, reason in attempt.dead.items():
            row = attempt.rows[place]
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
        """What tells the sides apart, and their places among the rows."""
        if len(self.runs.sides) == 1:
            return Sides(rows=[0])
        points = [None if side.forced else side.point for side in self.runs.sides]
        places = [rows.index(point) if point is not None and point in rows else None for point in points]
        open_, outside = self.further.open_rows(rows), self.runs.outside()
        further, base = self.further, self._base().run.record
        told = Sides(further.tree(), places, open_, outside, outcomes=further.outcomes())
        if not further.by_pairs:
            return replace(told, leaves=leaves_by_label(self.runs.axes))
        return replace(
            told, by_pairs=True, asking=further.asking(base), asks_others=further.asks_others(base, rows),
            agreeing=further.agreeing, leaves=leaves_by_label(self.runs.axes),
        )  # fmt: skip

    def _base(self) -> Side:
        """The side with the fullest record: it may do what does nothing on the others.

        One at a size of 1, where an axis may be dropped or broadcast, serves no other size.
        """

        def fullness(side: Side) -> tuple[bool, int, int, bool, int]:
            record = side.run.record
            asked = len(record.conditions) if self.further.by_pairs else 0
            full = loops(record), len(record.calls)
            return not self.runs.of_size_one(side.point), *full, side is self._preferred, asked

        return max(self.runs.sides, key=fullness)

    def _prefer_other_base(self) -> bool:
        """Take a side that calls the same operators for the base, the one that asks most conditions first."""
        base = self.runs.sides[0]
        for other in sorted(self.runs.sides[1:], key=lambda side: -len(side.run.record.conditions)):
            if other not in self._tried_bases and operators(other.run.record) == operators(base.run.record):
                self._tried_bases += [base, other]
                self._preferred = other
                return True
        return False

    def _merged(self) -> tuple[Record, list[Disputed]]:
        """All records as one: the fullest, with choices where the others have other numbers; and the sides on which
        only results can tell whether it does the same."""
        base = self._base()
        self.runs.sides.sort(key=lambda side: side is not base)  # the base is the first side
        record = base.run.record
        having = [[0] for _ in range(len(record.calls) + 1)]
        disputed: list[Disputed] = []
        for place, side in enumerate(list(self.runs.sides[1:]), start=1):
            try:
                record, is_disputed = merged(record, side.run.record, place, having)
            except Difference as difference:
                if side.forced:
                    raise parted(base, side, difference) from None
                disputed.append((side, difference))
                continue
            if is_disputed:
                disputed.append((side, None))
        return record, disputed

    def _has_other_base(self, graph: Graph, disputed: Sequence[Disputed]) -> bool:
        """Whether there is another record, which may serve all sides; else the graph gives on each of these sides what
        the model gave there, or it is another path.

        Such a record is of a run in which the conditions of both turn, or of a side that calls the same operators."""
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

    def _replays(self, graph: Graph, side: Side) -> bool:
        """Whether the graph gives what the model gave in the run of a side."""
        expected = [leaf for leaf in side.run.leaves if isinstance(leaf, torch.Tensor)]
        results = results_at(graph, self.runs, side.point)
        same = len(graph.block.outputs) == len(side.run.record.outputs)
        return results is not None and same and all(map(is_close, results, expected))

    def _agrees_elsewhere(self, graph: Graph, side: Side) -> bool:
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
        """The points of the sides, points to check at, and far ones."""
        axes, start = self.runs.axes, self.runs.sides[0].point
        rows = [start, *(side.point for side in self.runs.sides[1:] if not side.forced)]
        rows += [*rows_at.doubled(axes, start), *rows_at.least(axes), rows_at.together(axes, start)]
        largest = max((side.run.record.largest_number for side in self.runs.sides), default=0)
        rows += [*rows_at.far(axes, start), *rows_at.beyond(axes, start, largest), *self.readings.further]
        rows = [row for index, row in enumerate(rows) if row not in rows[:index] and self.runs.refused_at(row) is None]
        return rows if axes else [{}]
