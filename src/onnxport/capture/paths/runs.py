"""Runs of a model at points of its dynamic axes, each recorded."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.axes import axis as sizes
from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.decisions import follows_axes
from onnxport.capture.model.other_data import other_data
from onnxport.capture.model.refusals import REFUSALS, REFUSALS_ELSEWHERE, RefusalsIgnored, is_ours
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.paths.forced.flips import Flips
from onnxport.capture.paths.forced.frozen_conditions import FrozenCondition, TooManyRuns
from onnxport.capture.paths.loops.over_sizes import loops, with_loops
from onnxport.capture.paths.losses import Losses
from onnxport.capture.paths.path_runs import PathRun
from onnxport.capture.record.numbers import conversions
from onnxport.capture.record.record import Outcomes
from onnxport.capture.record.run import Run, record_run
from onnxport.capture.record.source_lines import raised_at
from onnxport.capture.record.tensors.parts import with_single_parts
from onnxport.capture.record.tracing import Answers, Function, NotScripted, denies
from onnxport.errors import CaptureError, DynamicAxisError, ExportError
from onnxport.graph.interpret import run as run_graph
from onnxport.graph.ir import Graph, Source
from onnxport.graph.sizes import Shape, Size, SizeExpr, evaluate, leaves_of

# Runs with fewer elements in all tensors together are tiny, whatever they compute.
TINY = 2**20
# As many paths as six independent conditions have: three stages that pad height and width where they are odd.
MOST_SIDES = 64
# Where conditions lead to more paths, so many runs cover all triples of their outcomes. They may have more elements:
# three conditions may hold together at large sizes alone.
MOST_FOR_TRIPLES = 2 * MOST_SIDES
TINY_FOR_TRIPLES = 2**24


class Runs:
    """The runs of one model so far are its ``sides``, one per path, the base first; ``start`` is the first point."""

    def __init__(self, runner: ModelRunner, axes: Sequence[Axis]) -> None:
        self.runner = runner
        self.axes = list(axes)
        self.sides: list[PathRun] = []
        self.start: Sizes = {}
        self.shapes: list[Shape] = []  # of all tensors in the last graph
        self.followed: list[dict[str, Any]] = []  # modules in which conversions keep expressions
        self.loops: set[Source | None] = set()  # lines on which loops over sizes begin
        self.answers = Answers()
        self.counted: frozenset[Source | None] = frozenset()  # lines that compare data-dependent sizes
        self.joined = False  # whether runs have both sides of their conditions on data
        self.decided: dict[Any, FrozenCondition] = {}  # conditions on data that stay frozen
        self.merged: dict[Source | None, None] = {}  # the lines of those with both branches in the graph
        self._refused: list[tuple[Sizes, Exception]] = []  # points that the model refuses, with its errors

    @property
    def points(self) -> list[Sizes]:
        """Where the model ran."""
        return [side.point for side in self.sides if not side.forced]

    @property
    def notes(self) -> list[str]:
        """Notes on conditions on data."""
        return [
            f"{line or 'the model'}: a condition on data, both sides of which are in the file" for line in self.merged
        ]

    def first(self) -> PathRun:
        """The run at the example, or at a point with distinct sizes, none of them 1, if the model accepts one."""
        example, points = sizes.example_sizes(self.axes), rows_at.starts(self.axes)
        found = None if points == [example] else self._first_taken(points)
        if found is None:
            found = PathRun(self._record_example(example), example)
            if not self.answers.to_all and points != [example]:
                found = self._first_taken(points) or found
        if denies(self.answers, self.runner, self._tensors(found.point), found.run.leaves):
            found = PathRun(self.record(found.point), found.point)
        return found

    def _tensors(self, point: Sizes) -> list[torch.Tensor]:
        """The inputs at a point."""
        return sizes.resize(self.runner.inputs.tensors, self.axes, point)

    def _first_taken(self, points: Iterable[Sizes]) -> PathRun | None:
        for point in points:
            with RefusalsIgnored():
                return PathRun(self.record(point), point)
        return None

    def _record_example(self, example: Sizes) -> Run:
        """The first run. An error that the model raises only while it is recorded is a `CaptureError`."""
        try:
            return self.record(example)
        except ExportError:
            raise
        except REFUSALS as error:
            failure = error
        self.runner.execute(self.runner.inputs.tensors)  # raises again if the error is the model's own
        if self.answers.to_all:
            # A model that asks whether it is traced may take sizes for tensors then, as they are to torch's tracer.
            self.answers.to_all = False
            return self._record_example(example)
        raise CaptureError(
            f"{raised_at(failure) or 'the model'}: the model runs, but not while it is recorded: "
            f"{type(failure).__name__}: {failure}"
        ) from failure

    def record(self, point: Sizes, forced: dict[int, bool] | None = None) -> Run:
        """A run at a point; once conditions on data are ``joined``, with both branches of them and with loops."""
        run = self._followed(point, lambda record: record(self._as_data_decide()), forced)
        return self.with_both_sides(run, point, forced) if self.joined else run

    def with_both_sides(self, run: Run, point: Sizes, forced: dict[int, bool] | None = None) -> Run:
        """A run at a point with both branches of its conditions on data, for which the model runs again."""
        if run.record.decisions:
            run = self._followed(point, lambda record: self._joined(run, record, point), forced)
        return self.with_loops(run)

    def _followed(self, point: Sizes, make: Callable[[Callable[..., Run]], Run], forced: dict[int, bool] | None) -> Run:
        """The result of ``make``, given a function that records the model at a point with all that was learned."""
        tensors = self._tensors(point)

        def record(outcomes: Outcomes | None, data: Sequence[torch.Tensor] | None = None) -> Run:
            return record_run(
                self.runner,
                tensors if data is None else data,
                symbolic=bool(self.axes),
                forced=forced,
                outcomes=outcomes,
                answers=self.answers,
            )

        while True:
            try:
                with conversions.followed_in(self.followed):
                    return make(record)
            except NotScripted as found:
                self.answers.script(found.function)

    def _as_data_decide(self) -> Outcomes | None:
        """Outcomes as data decide them; conditions are noted if both branches may be in the file."""
        return Outcomes(counted=self.counted) if self.runner.merges else None

    def _joined(self, run: Run, record: Callable[..., Run], point: Sizes) -> Run:
        def rerun(outcomes: Outcomes, data: Sequence[torch.Tensor] | None) -> Run:
            return record(replace(outcomes, counted=self.counted), data)

        data = functools.partial(other_data, self.runner.inputs.tensors, self._tensors(point))
        flips = Flips(rerun, MOST_SIDES, self.runner.unranked, data, finds_loops=self.runner.finds_loops)
        joined = flips.joined(run)
        if flips.exhausted and self.counted:
            raise TooManyRuns(f"conditions on data lead to more than {MOST_SIDES} paths through the model")
        self.decided.update(flips.left)
        self.merged.update(flips.merged)
        return joined

    def learns_loops(self, losses: Losses) -> bool:
        """Whether loops begin on more lines than is known: over a size that a loop before them gives, say."""
        lines = {loss.source for loss, _ in losses} - self.loops
        self.loops |= lines
        for side in self.sides if lines else ():
            side.run = self.with_loops(side.run)
        return bool(lines)

    def with_loops(self, run: Run) -> Run:
        return replace(run, record=with_loops(with_single_parts(run.record), self.loops))

    def learns(
        self, modules: Iterable[dict[str, Any]], functions: Collection[Function], counted: Collection[Source]
    ) -> bool:
        """Whether the next run follows more: modules that convert numbers, functions that read data, lines that compare
        data-dependent sizes."""
        known = {_identity(names) for names in self.followed}
        new = {_identity(names): names for names in modules if names and _identity(names) not in known}
        self.followed += new.values()
        turned = self.counted.union(counted if self.runner.merges_counted else ())
        more = turned != self.counted
        self.counted = turned
        return self.answers.answer_true(functions) or bool(new) or more

    def record_again(self, point: Sizes) -> Run:
        """The run again with what was learned. It may fail in functions that are now told that they are traced."""
        try:
            return self.record(point)
        except ExportError:
            raise
        except REFUSALS:
            if not self.answers.traced:
                raise
        self.answers.take_back()
        return self.record(point)

    def make_again(self) -> None:
        """All runs with what was learned from them."""
        for side in self.sides:
            side.run = self.record(side.point, side.decided or None)

    def is_bearable(self, point: Sizes, tiny: int = TINY) -> bool:
        """Whether a run at a point costs little more than one of the example, or has few elements in all."""
        few = rows_at.FEW_ELEMENTS if not any(side.run.record.unrolled for side in self.sides) else 0
        return rows_at.is_bearable(self.runner.inputs.tensors, self.axes, point, few=few) or self._is_tiny(point, tiny)

    def _is_tiny(self, point: Sizes, tiny: int) -> bool:
        """Whether all tensors of the last graph and the inputs together are tiny at a point, and Python iterates over
        none of them."""
        if any(loops(side.run.record) or side.run.record.unrolled for side in self.sides):
            return False
        left = tiny - sum(map(math.prod, sizes.shapes_at(self.runner.inputs.tensors, self.axes, point)))
        for shape in self.shapes:
            left -= math.prod(_size_at(size, point) for size in shape)
            if left < 0:
                return False
        return bool(self.shapes)

    def of_size_one(self, point: Sizes) -> list[str]:
        """The axes that are of size 1 at a point, and larger where the graph was recorded."""
        return [label for label, size in point.items() if size == 1 < self.sides[0].point[label]]

    def run_at(self, point: Sizes) -> Exception | None:
        """Run the model at a point; returns the error if the model refuses it."""
        try:
            self.sides.append(PathRun(self.record(point), point))
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            self._refused.append((point, error))
            return error
        return None

    def refused_at(self, point: Sizes) -> Exception | None:
        return next((error for refused, error in self._refused if refused == point), None)

    def taken(self) -> list[Axis]:
        """The axes, with ranges cut at the nearest sizes that the model refuses when one axis varies alone."""
        found = []
        for axis in self.axes:
            size = self.start[axis.label]
            refused = [point[axis.label] for point, _ in self._refused if point == {**self.start, **_only(axis, point)}]
            above = [number - 1 for number in refused if number > size]
            high = min((number for number in (axis.high, *above) if number is not None), default=None)
            low = max((axis.low, *(number + 1 for number in refused if number < size)))
            found.append(replace(axis, low=low, high=high))
        return found

    def outside(self) -> list[Sizes]:
        """The points just outside of the accepted ranges, one axis at a time."""
        ends = [(axis.label, end) for axis in self.taken() for end in (axis.low - 1, axis.high and axis.high + 1)]
        return [{**self.start, label: end} for label, end in ends if end is not None]

    def refusal_at(self, point: Sizes) -> Exception | None:
        """The error of the model at a point in a plain run; None if it accepts the point."""
        refused = self.refused_at(point)
        if refused is None:
            try:
                self.runner.execute(self._tensors(point))
            except REFUSALS_ELSEWHERE as error:
                if is_ours(error):
                    raise
                self._refused.append((point, error))
                return error
        return refused

    def force(self, side: PathRun, index: int, point: Sizes) -> Exception | None:
        """Run a path again with one condition forced to the other outcome, as a run at the point would be too large."""
        if self.merged:
            where = side.run.record.conditions[index].source or "the model"
            raise DynamicAxisError(
                f"{where}: this condition on sizes has another outcome only at sizes too large to try, in a model with "
                'conditions on data. Give the axis a smaller range, or export with control_flow="trace".'
            )
        decided = {**side.decided, index: not side.run.record.conditions[index].outcome}
        try:
            self.sides.append(PathRun(self.record(side.point, decided), side.point, point, decided))
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            return error
        return None

    def add_one_of(self, points: Iterable[Sizes]) -> bool:
        """Run the model at the first of some points that it accepts; False if there is none."""
        ran = self.points
        for point in points:
            taken = point not in ran and self.refused_at(point) is None and self.is_bearable(point)
            if taken and self.run_at(point) is None:
                return True
        return False


def results_at(graph: Graph, runs: Runs, point: Sizes) -> list[torch.Tensor] | None:
    """The tensors that a graph of the model gives at a point; None where an operator refuses its sizes."""
    inputs = sizes.resize(runs.runner.inputs.tensors, runs.axes, point)
    try:
        with torch.no_grad():
            return [result for result in run_graph(graph, inputs) if isinstance(result, torch.Tensor)]
    except REFUSALS_ELSEWHERE as error:
        if is_ours(error):
            raise
        return None


def _only(axis: Axis, point: Sizes) -> Sizes:
    return {axis.label: point[axis.label]} if axis.label in point else {}


def _identity(names: dict[str, Any]) -> Any:
    """The identity of a module, given its names; those of ``eval`` and ``exec`` may be created anew in each run."""
    return id(names) if "__name__" in names else frozenset(names)


def _size_at(size: Size, point: Sizes) -> int:
    """A size at a point; one that does not follow from the axes counts as large."""
    if isinstance(size, SizeExpr) and not follows_axes(size, point):
        return TINY
    return int(evaluate(size, {leaf: point[leaf.operands[0]] for leaf in leaves_of(size)}) or 0)
