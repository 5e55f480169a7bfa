"""Builds the graph of a record, again where a build shows that guessed sizes have to be equal, or different."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.choices import Sides, Unexplained
from onnxport.capture.build.decisions import is_same
from onnxport.capture.build.graph import Built, GraphBuilder
from onnxport.capture.paths.runs import Runs
from onnxport.capture.paths.turning import SMALL, turning_points
from onnxport.capture.record.record import Read, Record
from onnxport.capture.record.run import Run, input_shapes
from onnxport.capture.sizes.points import LEAST_POINTS, MorePoints, OneSize, Seen, Settled, Varying
from onnxport.capture.sizes.record_points import RecordPoints
from onnxport.errors import CaptureError
from onnxport.graph.ir import Graph
from onnxport.graph.sizes import Size, SizeExpr, axis, exact, leaves_of, structure, substitute
from onnxport.graph.sizes.expr import NUMBER_OF

MOST_READINGS = 60
# So many further points are tried at which sizes differ that are equal at all others.
MOST_POINTS = 24
# How far from those of the run the numbers are guessed to be that only data tells. Windows and merged patches take
# multiples of theirs; where an axis is static, there may be few above that number, or some only below it.
OFFSETS = (*(range(step, 12 * step, step) for step in (1, 2, 4, 8, 16, 32, 64)), range(1, 4), range(-3, 0))

# A point with the guesses that are chosen there, by their sites.
Row = tuple[Sizes, Mapping[int, int]]


class Coincidence(Exception):
    """Two sizes are equal at all evaluation points, but differ at another one."""

    def __init__(self, point: Sizes) -> None:
        super().__init__(point)
        self.point = point


@dataclass
class Found:
    """What readings of the record of one run found of numbers that only data tells: those ``seen`` in the run, rows at
    which sizes are ``apart`` that are equal at all others, and rows that operators ``refused``."""

    run: Run
    seen: dict[int, int] = field(default_factory=dict)
    apart: list[Row] = field(default_factory=list)
    refused: list[Row] = field(default_factory=list)
    error: str = ""  # of the last reading that failed
    varying: set[tuple[int, int]] = field(default_factory=set)  # axes of what loops carry that iterations change

    def note(self, found: Seen | Varying) -> None:
        if isinstance(found, Varying):
            self.varying |= found.axes
        else:
            self.seen[found.site] = found.number

    def drops_row(self) -> bool:
        """Drop the last row that was chosen, for which a reading may have failed; whether there was one."""
        self.refused += self.apart[-1:]
        return bool(self.apart) and self.apart.pop() is not None


class Readings:
    """The readings of the records of one model. ``further`` are points at which sizes differ that are equal at all
    others."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.further: list[Sizes] = []
        self._found: dict[int, Found] = {}  # by the ids of the runs
        self._turning_points: dict[Any, list[Sizes]] = {}

    def build(
        self, record: Record, run: Run, rows: Sequence[Sizes], sides: Sides
    ) -> tuple[Built, RecordPoints, list[Sizes]]:
        """The graph of a record, its points, and the sizes of the axes at these."""
        known = self._found.setdefault(id(run), Found(run))
        given, rows = list(rows), []
        settled: Settled = {}
        frozen: list[Read] = []
        tries = list(OFFSETS)
        for _ in range(MOST_READINGS):
            if len(rows) != len(given) + len(known.apart):
                settled, frozen = {}, []  # sizes that were found to be one have a value for each point
            rows = [*given, *(point for point, _ in known.apart)]
            points = self._points(known, given, rows, settled, tries[0])
            try:
                built = self._read(record, run, rows, sides, points)
            except MorePoints:
                given = [given[index % len(given)] for index in range(max(LEAST_POINTS, len(given)))]
            except OneSize as found:
                found.settle(settled)
                frozen += [found.frozen] if found.frozen is not None else []
            except (Seen, Varying) as found:
                settled, frozen = {}, []
                known.note(found)
            except Coincidence as found:
                given.append(found.point)
            except (CaptureError, Unexplained) as error:
                known.error = str(error)
                if len(rows) == len(given) + len(known.apart):
                    is_refused = _has_refused_guesses(points, rows)
                    if not is_refused or (not known.apart and len(tries) == 1):
                        raise
                    settled, frozen, tries = {}, [], tries if known.drops_row() else tries[1:]
            else:
                if len(tries) > 1 and len(rows) == len(given) and _has_refused_guesses(points, rows):
                    settled, frozen, tries = {}, [], tries[1:]
                elif self._is_complete(known, points, len(given)):
                    built.frozen += [(read, True) for read in frozen]
                    return built, points, rows
        raise CaptureError(f"{known.error or 'the model'}: sizes depend on each other in a way that could not be found")

    def takes_apart(self, graph: Graph, rows: Sequence[Sizes]) -> bool:
        """Whether there is a point at which sizes of a graph differ that are equal at all of its rows: it is a further
        one from now on."""
        point = next(coincidences(graph, self._runs, rows), None) if len(self.further) < MOST_POINTS else None
        self.further += [point] if point is not None else []
        return point is not None

    def _points(
        self, known: Found, given: Sequence[Sizes], rows: Sequence[Sizes], settled: Settled, offsets: range
    ) -> RecordPoints:
        points = RecordPoints(len(rows), dict(settled), [rows.index(row) for row in rows], offsets)
        points.chosen = {0: known.seen, **{len(given) + i: chosen for i, (_, chosen) in enumerate(known.apart)}}
        points.varying = known.varying
        points.tell_apart = functools.partial(self._tell_apart, points, known)
        return points

    def _is_complete(self, known: Found, points: RecordPoints, given: int) -> bool:
        """Whether nothing was found since the points were made, and operators take what was chosen there."""
        is_new = given + len(known.apart) > points.count
        refused = [row for index, row in enumerate(known.apart, start=given) if index in points.dead]
        known.refused += refused
        known.apart = [row for row in known.apart if row not in refused]
        return not is_new and not refused

    def _read(self, record: Record, run: Run, rows: Sequence[Sizes], sides: Sides, points: RecordPoints) -> Built:
        shapes = input_shapes(self._runs.runner.inputs.tensors, self._runs.axes, rows)
        with self._runs.runner.scripts_in_mode():
            return GraphBuilder(record, shapes, run.parameters, points, sides).build()

    def _tell_apart(self, points: RecordPoints, known: Found, left: SizeExpr, right: Size) -> None:
        """Two sizes are equal at every point: if there is one at which they differ, the record is evaluated there.

        A number that only data tells is searched for as the size of an axis is.
        """
        same = exact("eq", left, right)
        sites = {leaf: site for leaf in leaves_of(same) if (site := points.site_of(leaf)) is not None}
        counted = [_as_axis(leaf, site) for leaf, site in sites.items()]
        same = substitute(same, {leaf: axis(of.label, leaf.at) for leaf, of in zip(sites, counted, strict=True)})
        if not isinstance(same, SizeExpr):
            return
        start = {**self._runs.sides[0].point, **{of.label: of.size for of in counted}}
        for row in self._turning(same, counted, start):
            counts = {site: row[of.label] for site, of in zip(sites.values(), counted, strict=True)}
            point = {label: row[label] for label in self._runs.sides[0].point}
            if counts and (point, counts) not in (*known.apart, *known.refused):
                known.apart.append((point, counts))
                return
            if not counts and point not in self.further:
                self.further.append(point)
                raise Coincidence(point)

    def _turning(self, same: SizeExpr, counted: Sequence[Axis], start: Sizes) -> list[Sizes]:
        """The points at which a condition does not hold. All readings of one model ask for the same ones."""
        key = structure(same), tuple(start.items())
        if key not in self._turning_points:
            self._turning_points[key] = list(turning_points(same, True, [*self._runs.axes, *counted], start))
        return self._turning_points[key]


def _as_axis(leaf: SizeExpr, site: int) -> Axis:
    """A data-dependent number as an axis, for the search of points; a size is not negative."""
    return Axis(f"number {site} of the data", (), leaf.at[0], named=False, low=-SMALL if leaf.op == NUMBER_OF else 0)


def _has_refused_guesses(points: RecordPoints, rows: Sequence[Sizes]) -> bool:
    """Whether operators refused what was guessed for numbers that only data tells: at the sizes of the run, or so that
    nothing is known of any other size."""
    guessed = [index for index, reason in points.dead.items() if getattr(reason, "guessed", False)]
    none_lives = len(points.dead) == len(rows) - 1
    return any(none_lives or rows[index] == rows[0] for index in guessed)


def coincidences(graph: Graph, runs: Runs, rows: Sequence[Sizes]) -> Iterator[Sizes]:
    """Points at which sizes differ that are equal at all rows, or that are constant there."""
    seen: dict[Any, list[SizeExpr]] = {}
    for size in _sizes(graph):
        alike = seen.setdefault(size.at, [])
        if not any(is_same(size, other) for other in alike):
            alike.append(size)
    pairs: list[tuple[Any, Any]] = [pair for alike in seen.values() for pair in itertools.combinations(alike, 2)]
    pairs += [(alike[0], at[0]) for at, alike in seen.items() if at.count(at[0]) == len(at)]
    for left, right in pairs:
        same = exact("eq", left, right)
        if isinstance(same, SizeExpr):
            points = turning_points(same, True, runs.axes, runs.start)
            yield from (point for point in points if point not in rows and runs.refused_at(point) is None)


def _sizes(graph: Graph) -> Iterator[SizeExpr]:
    for node in graph.block.all_nodes():
        for value in node.outputs:
            for size in (value.size, *(value.shape if value.is_tensor else ())):
                if isinstance(size, SizeExpr):
                    yield size
