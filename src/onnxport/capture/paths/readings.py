"""Reads a record as a graph, and again where a reading shows that sizes have to be others, or to be told apart."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.build.choices import Sides, Unexplained
from onnxport.capture.build.graph import Built, GraphBuilder
from onnxport.capture.build.points import RecordPoints
from onnxport.capture.paths.runs import Runs
from onnxport.capture.paths.turning import SMALL, turning_points
from onnxport.capture.record.record import Read, Record
from onnxport.capture.record.run import Run, input_shapes
from onnxport.capture.script.points import LEAST_POINTS, MorePoints, OneSize, Seen, Settled
from onnxport.errors import CaptureError
from onnxport.graph.sizes import Size, SizeExpr, axis, exact, leaves_of, substitute
from onnxport.graph.sizes.expr import NUMBER_OF

MOST_READINGS = 60

# The numbers that only data tells, by their sites, which are chosen at a point.
Counts = Mapping[int, int]


class Coincidence(Exception):
    """Sizes that are equal at all rows differ at another point."""

    def __init__(self, point: Sizes) -> None:
        super().__init__(point)
        self.point = point


class Readings:
    """The readings of the records of one model. ``further`` are points at which sizes differ that are equal at all
    others."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.further: list[Sizes] = []

    def build(
        self, record: Record, run: Run, rows: Sequence[Sizes], sides: Sides
    ) -> tuple[Built, RecordPoints, list[Sizes]]:
        """The graph of a record, its points, and the sizes of the axes at these."""
        settled: Settled = {}
        frozen: list[Read] = []
        rows = list(rows)
        counts: dict[int, Counts] = {}
        tried: list[tuple[Sizes, Counts]] = []
        for _ in range(MOST_READINGS):
            points = RecordPoints(len(rows), dict(settled), [rows.index(row) for row in rows])
            points.chosen = counts
            found_apart: list[tuple[Sizes, Counts]] = []
            points.tell_apart = functools.partial(self._tell_apart, points, tried, found_apart)
            try:
                built = self._read(record, run, rows, sides, points)
                refused = [place for place in counts if place in points.dead]
                if not found_apart and not refused:
                    built.frozen += [(read, True) for read in frozen]
                    return built, points, rows
            except MorePoints:
                rows = [rows[index % len(rows)] for index in range(max(LEAST_POINTS, len(rows)))]
                continue
            except OneSize as found:
                found.settle(settled)
                frozen += [found.frozen] if found.frozen is not None else []
                continue
            except Seen as found:
                settled, frozen = {}, []
                counts[0] = {**counts.get(0, {}), found.site: found.number}
                continue
            except Coincidence as found:
                found_apart, refused = [(found.point, {})], []
            except (CaptureError, Unexplained):
                if not found_apart:
                    raise
                refused = []
            settled, frozen = {}, []  # sizes that were found to be one have as many values as there were points
            counts = {place: chosen for place, chosen in counts.items() if place not in refused}
            counts |= {len(rows) + place: chosen for place, (_, chosen) in enumerate(found_apart)}
            tried += found_apart
            rows += [point for point, _ in found_apart]
        raise CaptureError("the sizes in this model depend on each other in a way that could not be found")

    def _read(self, record: Record, run: Run, rows: Sequence[Sizes], sides: Sides, points: RecordPoints) -> Built:
        shapes = input_shapes(self._runs.runner.inputs.tensors, self._runs.axes, rows)
        with self._runs.runner.scripts_in_mode():
            return GraphBuilder(record, shapes, run.parameters, points, sides).build()

    def _tell_apart(
        self,
        points: RecordPoints,
        tried: Sequence[tuple[Sizes, Counts]],
        found: list[tuple[Sizes, Counts]],
        left: SizeExpr,
        right: Size,
    ) -> None:
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
        for row in turning_points(same, True, [*self._runs.axes, *counted], start):
            counts = {site: row[of.label] for site, of in zip(sites.values(), counted, strict=True)}
            point = {label: row[label] for label in self._runs.sides[0].point}
            if counts and (point, counts) not in (*tried, *found):
                found.append((point, counts))
                return
            if not counts and point not in self.further:
                self.further.append(point)
                raise Coincidence(point)


def _as_axis(leaf: SizeExpr, site: int) -> Axis:
    """A number that only data tells, as turning points are searched: a size is not negative."""
    return Axis(f"number {site} of the data", (), leaf.at[0], named=False, low=-SMALL if leaf.op == NUMBER_OF else 0)
