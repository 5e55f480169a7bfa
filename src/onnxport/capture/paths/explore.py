"""Captures a model with dynamic axes: one recorded run, and others only where that one cannot tell."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from onnxport.capture import sizes
from onnxport.capture.build.choices import LEAST_SIDES, Sides, Unexplained
from onnxport.capture.build.graph import Built, GraphBuilder, Turned
from onnxport.capture.build.points import RecordPoints
from onnxport.capture.frozen import raised_at
from onnxport.capture.liberty import is_close
from onnxport.capture.paths import rows as rows_at
from onnxport.capture.paths.merge import ConditionKey, Difference, merged, outcomes
from onnxport.capture.paths.relations import relations
from onnxport.capture.paths.sides import Side, is_seen, is_seen_alone, parted, shown_line, unexplained
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.record import conversions
from onnxport.capture.record.record import Condition, Record, largest_number
from onnxport.capture.recorded import Run, input_shapes, record_run
from onnxport.capture.refusals import REFUSALS
from onnxport.capture.script.points import LEAST_POINTS, MorePoints, OneSize, Settled
from onnxport.capture.sizes import Axis, Sizes
from onnxport.capture.trace import Tracer
from onnxport.capture.untried import shown
from onnxport.errors import CaptureError, DynamicAxisError, ExportError
from onnxport.graph.interpret import run as run_graph
from onnxport.graph.ir import Graph, Source
from onnxport.graph.sizes import SizeExpr, exact

MOST_READINGS = 60
MOST_SIDES = 24


@dataclass
class Found:
    """The graph of a model with its axes: the ``rows`` that it was evaluated at, the ``points`` at which the model ran,
    those to check at, and what there is to tell."""

    run: Run
    built: Built
    axes: list[Axis]
    rows: list[Sizes]
    points: list[Sizes]
    checks: list[Sizes]
    static: list[tuple[Axis, Exception]] = field(default_factory=list)
    equal: list[tuple[str, str]] = field(default_factory=list)
    narrowed: list[str] = field(default_factory=list)


class Explorer:
    """One model with its declared axes."""

    def __init__(self, tracer: Tracer, axes: Sequence[Axis]) -> None:
        self.tracer = tracer
        self.axes = list(axes)
        self.sides: list[Side] = []
        self.narrowed: list[str] = []
        self.as_traced = True  # whether models that ask are told that they are traced
        self.followed: list[dict[str, Any]] = []  # modules in which conversions keep expressions
        self._refused_keys: set[ConditionKey] = set()
        self._asked: dict[int, list[tuple[ConditionKey, Condition, Any]]] = {}  # the conditions of each side
        self._tried: set[tuple[int, Source | None, int]] = set()  # keys that sizes were looked up among

    def explore(self) -> Found:
        base = self._first()
        self.sides = [base]
        rows = [*rows_at.doubled(self.axes, base.point), *rows_at.least(self.axes)]
        rows += rows_at.beyond(self.axes, base.point, largest_number(base.run.record))
        built, points, _ = self._build(base.run.record, base.run, [base.point, *rows] if rows else [{}], Sides())
        self.followed = [names for names in _converted(built, points) if names]
        if self.followed:
            base.run = self._record(base.point)
        rows = rows_at.doubled(self.axes, base.point)
        reasons = self._taken(base, rows)
        found_relations = None
        if any(reason is not None for reason in reasons):
            found_relations = relations(self.axes, base.point, lambda rows: self._taken(base, rows))
            self.axes = found_relations.axes
            base.point = {axis.label: base.point[axis.label] for axis in self.axes}
        built, rows = self._settled()
        ran = [side.point for side in self.sides if not side.forced]
        checks = self._checks(rows, built)
        found = Found(self._base().run, built, self.axes, rows, ran, checks, narrowed=self.narrowed)
        if found_relations is not None:
            found.static, found.equal = found_relations.static, found_relations.equal
        return found

    # Runs

    def _first(self) -> Side:
        """The run at the example, unless a size of it would hide something: 1 is broadcast, 0 is nothing at all."""
        example = sizes.example_sizes(self.axes)
        if all(size > 1 for size in example.values()):
            return Side(self._record_example(example), example)
        point = dict(example)
        for axis in self.axes:
            if axis.size < 2:
                taken = set(point.values())
                point[axis.label] = next((n for n in range(3, 99) if axis.takes(n) and n not in taken), axis.size)
        try:
            return Side(self._record(point), point)
        except REFUSALS:
            run = self._record_example(example)
        if self.as_traced:
            return Side(run, example)
        try:
            return Side(self._record(point), point)
        except REFUSALS:
            return Side(run, example)

    def _record_example(self, example: Sizes) -> Run:
        """The first run; what the model raises only while it is recorded is no error of the model's."""
        try:
            return self._record(example)
        except ExportError:
            raise
        except REFUSALS as error:
            failure = error
        self.tracer.execute(self.tracer.inputs.tensors)  # raises again if the error is the model's own
        if self.as_traced:
            # A model that asks whether it is traced may take sizes for tensors then, as they are to torch's tracer.
            self.as_traced = False
            return self._record_example(example)
        raise CaptureError(
            f"{raised_at(failure) or 'the model'}: the model runs, but not while it is recorded: "
            f"{type(failure).__name__}: {failure}"
        ) from failure

    def _record(self, point: Sizes, forced: dict[int, bool] | None = None) -> Run:
        tensors = sizes.resize(self.tracer.inputs.tensors, self.axes, point)
        with conversions.followed_in(self.followed):
            symbolic = bool(self.axes)
            return record_run(self.tracer, tensors, symbolic=symbolic, forced=forced, as_traced=self.as_traced)

    # Which axes vary

    def _taken(self, base: Side, rows: Sequence[Sizes]) -> list[Exception | None]:
        """Which rows the model takes; why it does not take the others."""
        if not rows:
            return []
        _, points, _ = self._build(base.run.record, base.run, [base.point, *rows], Sides())
        return [self._reason(points.dead.get(place + 1), row) for place, row in enumerate(rows)]

    def _reason(self, dead: Any, row: Sizes) -> Exception | None:
        """Why the model does not take a row at which the record says nothing; it may take another path there."""
        if dead is None:
            return None
        if not self._is_bearable(row):
            return None if isinstance(dead, Turned) else dead
        try:
            self.tracer.execute(sizes.resize(self.tracer.inputs.tensors, self.axes, row))
        except REFUSALS as error:
            return error
        return None

    def _is_bearable(self, point: Sizes, times: int = 16) -> bool:
        """Whether the inputs are not so large at a point that a run there takes much longer than one of the example."""
        tensors = self.tracer.inputs.tensors
        elements = sum(map(math.prod, sizes.shapes_at(tensors, self.axes, point)))
        return elements <= max(2**12, times * sum(tensor.numel() for tensor in tensors))

    # Building

    def _build(
        self, record: Record, run: Run, rows: Sequence[Sizes], sides: Sides
    ) -> tuple[Built, RecordPoints, list[Sizes]]:
        settled: Settled = {}
        rows = list(rows)
        for _ in range(MOST_READINGS):
            points = RecordPoints(len(rows), dict(settled), [rows.index(row) for row in rows])
            shapes = input_shapes(self.tracer.inputs.tensors, self.axes, rows)
            try:
                return GraphBuilder(record, shapes, run.parameters, points, sides).build(), points, rows
            except MorePoints:
                rows = [rows[index % len(rows)] for index in range(max(LEAST_POINTS, len(rows)))]
            except OneSize as found:
                found.settle(settled)
        raise CaptureError("the sizes in this model depend on each other in a way that could not be found")

    def _settled(self) -> tuple[Built, list[Sizes]]:
        """The graph of all sides, with further runs where a condition turns within the declared ranges."""
        for _ in range(MOST_SIDES):
            record, sides, disputed = self._merged()
            rows = self._rows()
            try:
                built, points, rows = self._build(record, self._base().run, rows, self._placed(sides, rows))
            except Unexplained as found:
                if not self._add_for_losses():
                    raise unexplained(found, self.sides) from None
                continue
            turned = [dead for dead in points.dead.items() if isinstance(dead[1], Turned)]
            if not self._add_side(built, turned, rows):
                break
        else:
            raise DynamicAxisError(
                f"{shown_line(built.conditions[0][1].source)}: conditions on sizes lead to more than {MOST_SIDES} "
                "paths through the model. Write this without conditions, or give the axes smaller ranges."
            )
        points_dead = dict(points.dead)
        alive = [row for place, row in enumerate(rows) if place not in points_dead]
        dead = list(points_dead.values())
        if dead:
            built, points, alive = self._build(record, self._base().run, alive, self._placed(sides, alive))
        self._check_varying(alive, dead)
        self._check_dead({place: row for place, row in enumerate(rows) if place in points_dead}, points_dead)
        self._check_disputed(built.graph, disputed)
        return built, alive

    def _check_dead(self, rows: Mapping[int, Sizes], dead: Mapping[int, Any]) -> None:
        """Points next to the example at which the record says nothing, and which the model takes all the same.

        A size of 1, at which an axis may be dropped or broadcast, is told of; another one is an error.
        """
        start = self.sides[0].point
        near = [*rows_at.doubled(self.axes, start), *rows_at.least(self.axes)]
        for place, row in rows.items():
            if isinstance(dead[place], Turned) or row not in near or self._reason(dead[place], row) is not None:
                continue
            message = f"{dead[place]}: the model does something else at {shown(row)} than at {shown(start)}"
            if not any(size == 1 < start[label] for label, size in row.items()):
                raise DynamicAxisError(f"{message}. Write this so that it does the same, or leave the axis static.")
            self.narrowed.append(f"{message}, which the file does not follow")

    def _check_varying(self, alive: Sequence[Sizes], dead: Sequence[Any]) -> None:
        """Each axis has several sizes at which the record holds; the model takes them, so it is not refused there."""
        for axis in self.axes:
            if len({row[axis.label] for row in alive}) == 1:
                lines = [d.condition.source if isinstance(d, Turned) else getattr(d, "source", None) for d in dead]
                where = next((line for line in lines if line is not None), "the model")
                raise DynamicAxisError(
                    f"{where}: the model does something else at every other size of {axis.label!r}: a loop over the "
                    "axis, or a number that Python computed from its size, decides what it computes. Write this with "
                    "tensor operations, or leave the axis static."
                )

    def _placed(self, sides: Sides, rows: Sequence[Sizes]) -> Sides:
        """The sides with their places among the rows."""
        points = [None if side.forced else side.point for side in self.sides]
        return replace(sides, rows=[rows.index(p) if p is not None and p in rows else None for p in points])

    def _base(self) -> Side:
        return max(self.sides, key=lambda side: len(side.run.record.calls))

    def _merged(self) -> tuple[Record, Sides, list[Side]]:
        """All records as one: the fullest, with choices where the others have other numbers; and the sides on which
        only results can tell whether it does the same."""
        base = self._base()
        self.sides.sort(key=lambda side: side is not base)  # the base is the first side
        record = base.run.record
        disputed = []
        for place, side in enumerate(list(self.sides[1:]), start=1):
            try:
                record, is_disputed = merged(record, side.run.record, place)
            except Difference as difference:
                raise parted(base, side, difference) from None
            if is_disputed:
                disputed.append(side)
        found = [outcomes(side.run.record) for side in self.sides]
        both = {key for one in found for key, outcome in one.items() if any(o.get(key) is (not outcome) for o in found)}
        return record, Sides(found, [None] * len(self.sides), both | self._refused_keys), disputed

    def _check_disputed(self, graph: Graph, disputed: Sequence[Side]) -> None:
        """On each of these sides the graph gives what the model gave there, or it is another path."""
        for side in disputed:
            if side.forced or self._replays(graph, side):
                continue
            error = parted(self.sides[0], side, None)
            if not any(size == 1 and self.sides[0].point[label] > 1 for label, size in side.point.items()):
                raise error
            self.narrowed.append(f"{error} The file does not serve {shown(side.point)}.")

    def _replays(self, graph: Graph, side: Side) -> bool:
        inputs = sizes.resize(self.tracer.inputs.tensors, self.axes, side.point)
        expected = [leaf for leaf in side.run.leaves if isinstance(leaf, torch.Tensor)]
        try:
            with torch.no_grad():
                results = [r for r in run_graph(graph, inputs) if isinstance(r, torch.Tensor)]
        except REFUSALS:
            return False
        return len(results) >= len(expected) and all(map(is_close, results, expected))

    def _add_side(self, built: Built, turned: Sequence[tuple[int, Turned]], rows: Sequence[Sizes]) -> bool:
        """Run the model where a condition of some side turns, if possible alone; whether there was such a point."""
        for side in [side for side in self.sides if not side.forced]:
            conditions = built.conditions if side is self.sides[0] else self._conditions(side)
            for key, condition, expression in conditions:
                others = [(k, c, e) for k, c, e in conditions if e != expression]
                if key in self._refused_keys or is_seen_alone(self.sides, key, condition, others):
                    continue
                keep = [(e, c.outcome) for _, c, e in others]
                points = list(turning_points(expression, condition.outcome, self.axes, side.point, keep))
                if not points and not is_seen(self.sides, key, condition):
                    points = list(turning_points(expression, condition.outcome, self.axes, side.point))
                    points += [rows[place] for place, dead in turned if dead.key == key]
                taken = [other.point for other in self.sides]
                points = [point for point in points if point not in taken]
                if points and self._run_side(key, side, points):
                    return True
        return self._add_for_keys(built) or (bool(built.losses) and self._add_for_losses())

    def _conditions(self, side: Side) -> list[tuple[ConditionKey, Condition, Any]]:
        """The conditions that were asked on a side, with their expressions."""
        if id(side.run) not in self._asked:
            rows = [side.point, *(row for row in self._rows() if row != side.point)]
            built, _, _ = self._build(side.run.record, side.run, rows, Sides())
            self._asked[id(side.run)] = built.conditions
        return self._asked[id(side.run)]

    def _add_for_keys(self, built: Built) -> bool:
        """Run the model where a size that it looks up is one of the keys; whether there is such a point left."""
        taken = [side.point for side in self.sides]
        for loss, expression in built.losses:
            for key in loss.keys:
                if (id(loss.names), loss.source, key) in self._tried:
                    continue
                self._tried.add((id(loss.names), loss.source, key))
                equal = exact("eq", expression, key)
                found = turning_points(equal, False, self.axes, taken[0]) if isinstance(equal, SizeExpr) else ()
                for point in found:
                    if point not in taken and self._is_bearable(point):
                        with contextlib.suppress(*REFUSALS):
                            self.sides.append(Side(self._record(point), point))
                            return True
        return False

    def _run_side(self, key: ConditionKey, side: Side, points: Sequence[Sizes]) -> bool:
        refusal: Exception | None = None
        for point in [p for p in points if self._is_bearable(p)][:3]:
            try:
                self.sides.append(Side(self._record(point), point))
            except REFUSALS as error:
                refusal = error
                continue
            return True
        if refusal is None:  # the condition turns only where a run would be too large
            index = next(i for i, k in enumerate(_keys(side.run.record)) if k == key)
            outcome = side.run.record.conditions[index].outcome
            try:
                run = self._record(side.point, {index: not outcome})
                self.sides.append(Side(run, points[0], forced=True))
            except REFUSALS as error:
                refusal = error
            else:
                return True
        self._refused_keys.add(key)
        self.narrowed.append(
            f"{shown_line(key[0])}: sizes such as {shown(points[0])} are refused by the model: {refusal}"
        )
        return True

    def _add_for_losses(self) -> bool:
        """Run the model at another size, where numbers differ whose expression was lost; whether there is one.

        The last such run is as far away as it can be.
        """
        count = sum(not side.forced for side in self.sides)
        if count >= LEAST_SIDES:
            return False
        taken = [side.point for side in self.sides]
        points = [p for p in (*self._rows()[1:], *rows_at.farthest(self.axes, taken[0])) if p not in taken]
        points = [point for point in points if self._is_bearable(point)]
        if count == LEAST_SIDES - 1:
            points.sort(key=lambda point: -sum(point.values()))
        for point in points:
            try:
                self.sides.append(Side(self._record(point), point))
            except REFUSALS:
                continue
            return True
        return False

    # Points

    def _rows(self) -> list[Sizes]:
        """The points of the sides, points to check at, and far ones."""
        start = self.sides[0].point
        rows = [start, *(side.point for side in self.sides[1:] if not side.forced)]
        largest = max((largest_number(side.run.record) for side in self.sides), default=0)
        rows += [*rows_at.doubled(self.axes, start), *rows_at.least(self.axes), *rows_at.far(self.axes, start)]
        rows += rows_at.beyond(self.axes, start, largest)
        return [row for index, row in enumerate(rows) if row not in rows[:index]] if self.axes else [{}]

    def _checks(self, alive: Sequence[Sizes], built: Built) -> list[Sizes]:
        """The points to check at, of those that the model takes: the sides, twice each axis, and the least sizes.

        On the least data a loop at run time may never end.
        """
        wanted = [
            *(side.point for side in self.sides if not side.forced),
            *rows_at.doubled(self.axes, self.sides[0].point),
        ]
        if not any(node.op == "prim::Loop" for node in built.graph.block.all_nodes()):
            wanted += rows_at.least(self.axes)
        example = sizes.example_sizes(self.axes)
        return [row for row in alive if row in wanted and row != example]


def _converted(built: Built, points: RecordPoints) -> list[dict[str, Any]]:
    """The modules in which a number that follows from sizes or data was converted, or sizes compared that turn."""
    names = [loss.names for loss, _ in built.losses]
    reads = [read for read, depends in built.frozen if depends or read.by_torch]
    names += [read.names for read in reads if read.how in ("__int__", "__float__", "__len__")]
    return names + [dead.condition.names for dead in points.dead.values() if isinstance(dead, Turned)]


def _keys(record: Record) -> list[ConditionKey]:
    return list(outcomes(record))
