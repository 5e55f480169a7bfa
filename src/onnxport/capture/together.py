"""The traces of one model at several sizes, and their common graph; further traces settle what is left open."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from onnxport.capture import sizes, ties
from onnxport.capture.align import align
from onnxport.capture.conditions import Condition, SizeSource, integers_named, read_numbers, traced_conditions
from onnxport.capture.counted import all_vary, dropped_by_data, with_other_data
from onnxport.capture.frozen import FrozenValue, raised_at
from onnxport.capture.probes import probes, worth_tracing
from onnxport.capture.reader import Trace
from onnxport.capture.refusals import REFUSALS
from onnxport.capture.sizes import Axis, Sizes
from onnxport.capture.solving import POINTS_FOR_A_SIZE, Numbers, baked_nodes
from onnxport.capture.structure import Structure
from onnxport.capture.tables import tables_named
from onnxport.capture.untried import dropped_axis, shown, stray_number, untried_condition
from onnxport.errors import CaptureError, DynamicAxisError
from onnxport.graph.data_sizes import size_depends_on_data, undecided_branch
from onnxport.graph.dims import Size
from onnxport.graph.dims import size as size_of
from onnxport.graph.doubts import Doubt
from onnxport.graph.ir import Graph, Node, Source

if TYPE_CHECKING:
    from onnxport.capture.trace import Tracer

# How often the model is traced again where Python computed a number: few points fit many expressions.
BAKED_TRACES = 8
# Sizes at which it shows whether a number that Python read follows from them.
SAMPLED = (1, 2, 5, 997)
# How often the model is traced again to settle a doubt about how two sizes relate.
PROBES = 6


class NoFurtherSizes(ValueError):
    """All sizes of the axes' ranges have been tried."""


@dataclass(frozen=True)
class Dispute:
    """A point at which the model takes another path than the graph: only its results can tell whether that matters."""

    point: Sizes
    reason: str


@dataclass
class Run:
    """One traced call: the trace, what the model returned, what Python read on the way, and whether random numbers
    were drawn outside of torch."""

    trace: Trace
    structure: Structure
    leaves: list[Any]
    frozen: list[FrozenValue]
    draws: bool = False


@dataclass
class Together:
    """Runs at points, one after another. ``warnings`` tell what could not be tried."""

    tracer: Tracer
    axes: list[Axis]
    runs: list[Run] = field(default_factory=list)
    points: list[Sizes] = field(default_factory=list)
    disputed: list[Dispute] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, run: Run, point: Sizes) -> None:
        self.runs.append(run)
        self.points.append(point)

    def add_at(self, point: Sizes) -> None:
        """Add a trace at a point that the model is known to take."""
        self.add(self.tracer.run(sizes.resize(self.tracer.inputs.tensors, self.axes, point)), point)

    def first_differs(self) -> bool:
        """Whether the first trace comes out otherwise by now.

        Then the first call filled a cache that the modules do not hold (a global, an attribute of another object),
        which no restoring of the model empties: the traces part there, and would not if they were all made again.
        """
        if not self.runs:
            return False
        with contextlib.suppress(*REFUSALS):
            first = sizes.resize(self.tracer.inputs.tensors, self.axes, self.points[0])
            return _kinds(self.tracer.run(first)) != _kinds(self.runs[0])
        return False

    def trace_elsewhere(self) -> None:
        """Add traces at other sizes; axes that were given by index are tied together if the model needs that."""
        if not self.axes:
            return
        refusal: Exception | None = None
        for candidates in ties.candidates(self.axes, self._takes):
            for _ in range(sizes.points_needed(candidates)):
                try:
                    self.add(*self._at_some(candidates))
                except REFUSALS as error:
                    refusal = refusal or error
                    break
            if len(self.points) == 1 and self.points != [sizes.example_sizes(self.axes)]:
                # One other size is all that the model takes: the example is the second, even with a size of 1.
                self.add(self.tracer.run(self.tracer.inputs.tensors), sizes.example_sizes(self.axes))
            if len(self.points) > 1:
                self.axes = list(candidates)
                return
        assert refusal is not None
        raise self._refused(refusal) from refusal

    def _takes(self, axes: Sequence[Axis]) -> bool:
        with contextlib.suppress(*REFUSALS):
            self._at_some(axes)
            return True
        return False

    def _refused(self, refusal: Exception) -> DynamicAxisError:
        """The error for a model that takes no other sizes, with its own words."""
        place = raised_at(refusal)
        said = f"{type(refusal).__name__}: {refusal}"
        stuck = [axis.label for axis in self.axes if len(self.axes) > 1 and not self._takes([axis])]
        labels = stuck or [axis.label for axis in self.axes]
        equal = self._equal_axes()
        where = f"{place}: " if place else ""
        if equal is not None:
            return DynamicAxisError(
                f"{where}the model takes other sizes of {equal[0]!r} and {equal[1]!r} only where they are equal "
                f"({said}): give both axes one name."
            )
        return DynamicAxisError(
            f"{where}the model refuses every other size of its dynamic axes ({', '.join(labels)}) that was tried: "
            f"{said}. Leave an axis that cannot vary out, give axes that must be equal one name, or give the sizes "
            f'that it takes as a range: dynamic_shapes={{...: torch.export.Dim("{labels[0]}", min=..., max=...)}}.'
        )

    def _equal_axes(self) -> tuple[str, str] | None:
        """Two axes that the model needs equal: it takes another size of both at once."""
        for left, right in itertools.combinations(self.axes, 2):
            if left.size != right.size or any(axis.plus for axis in self.axes):
                continue
            one = replace(left, places=left.places + right.places, forms={**left.forms, **right.forms})
            with contextlib.suppress(*REFUSALS):
                self._at_some([one, *(axis for axis in self.axes if axis not in (left, right))])
                return left.label, right.label
        return None

    def _at_some(self, axes: Sequence[Axis]) -> tuple[Run, Sizes]:
        """A trace at the first of the points worth trying that the model does not refuse."""
        tensors = self.tracer.inputs.tensors
        refusal: Exception | None = None
        for point in sizes.attempts(axes, self.points, tensors):
            if point in self.points:
                continue
            try:
                return self.tracer.run(sizes.resize(tensors, axes, point)), point
            except REFUSALS as error:
                refusal = refusal or error
        raise refusal or NoFurtherSizes("the ranges of the axes hold no further sizes")

    def graph(self) -> Graph:
        """The common graph, with further traces where those so far leave a doubt.

        A part of a size that never changed is tried at one more size; a number that Python computed, at several; sizes
        that something compares, in the other order; sizes that depend on data, on other data.
        """
        try:
            graph = self._align()
        except DynamicAxisError as error:
            graph = self._without_example(error)
        if graph.coincidence:
            with contextlib.suppress(*REFUSALS):
                self.add(*self._at_some(self.axes))
                graph = self._align()
        if any(map(undecided_branch, graph.block.all_nodes())):
            self._turn_branches()
            graph = self._align()
        graph, refused = self._settled(graph)
        if any(size_depends_on_data(node) for node in graph.block.all_nodes()):
            graph = with_other_data(self, graph)
            self.warnings += dropped_by_data(self, graph)
            if not all_vary(graph):
                self._freeze_followed()
        if self.axes:
            self._tell_untried(graph, refused)
        return self._solved(graph)

    def _turn_branches(self) -> None:
        """Add a trace whose conditions all turn out otherwise: sizes that differ between branches then differ."""
        self.tracer.turned = True
        try:
            self.add_at(self.points[0])
        finally:
            self.tracer.turned = False

    def _without_example(self, error: DynamicAxisError) -> Graph:
        """The graph of all other runs, where only the example's takes another path; else the error.

        The size that a model is made for may be a special case that skips a step, as one of resizing positions. That
        the step changes nothing there is for the results to tell.
        """
        example = sizes.example_sizes(self.axes)
        if not self.axes or self.points[0] != example or self.first_differs():
            raise error
        first, point = self.runs.pop(0), self.points.pop(0)
        try:
            while len(self.runs) < sizes.points_needed(self.axes) + 1:
                self.add(*self._at_some(self.axes))
            graph = self._align()
        except (*REFUSALS, DynamicAxisError):
            self.runs.insert(0, first)
            self.points.insert(0, point)
            raise error from None
        self.disputed.append(Dispute(point, str(error)))
        return graph

    def _align(self, run: Run | None = None, point: Sizes | None = None) -> Graph:
        """The graph of the runs, and of one more that is only tried."""
        return self.aligned(self.runs + ([run] if run else []), self.points + ([point] if point else []))

    def aligned(self, runs: Sequence[Run], points: Sequence[Sizes]) -> Graph:
        """The graph of these runs."""
        # What scripted modules hold is read here, so they have to be as they were when they were traced.
        with self.tracer.in_mode() if self.tracer.scripts else contextlib.nullcontext():
            return align([run.trace for run in runs], len(self.tracer.inputs.tensors), self.tracer.parameters, points)

    def _settled(self, graph: Graph) -> tuple[Graph, list[Sizes]]:
        """The common graph with traces at the sizes where a condition or a cut would turn out otherwise, and those of
        them that did not fit.

        Another path at such a size may compute the same, as a special case does: it is disputed, not refused.
        """
        example = self.tracer.inputs.tensors
        refused: list[Sizes] = []
        untold: list[Sizes] = []  # where the model gives something that is no graph
        for _ in range(PROBES if self.axes else 0):
            found = probes(self._doubts(graph), self.axes, self._captured(graph), refused + untold, example)
            probe = next((p for p in found if not p.costly and p.doubt.relation != "squeezed"), None)
            if probe is None:
                break
            point = probe.point
            try:
                run = self.tracer.run(sizes.resize(example, self.axes, point))
            except REFUSALS:
                refused.append(point)
                continue
            except CaptureError:
                untold.append(point)
                continue
            try:
                tried = self._align(run, point)
            except DynamicAxisError as error:
                place = f"{probe.doubt.source}: this" if probe.doubt.source else "a condition on a size"
                self.disputed.append(Dispute(point, f"{place} turns out otherwise at {shown(point)}: {error}"))
                refused.append(point)
                continue
            stray = self._stray(tried, [*self.points, point], probe.doubt.source)
            if stray is not None:
                self.warnings.append(stray_number(stray, point, len(self.points)))
                refused.append(point)
                continue
            graph = tried
            self.add(run, point)
        return graph, refused

    def _stray(self, graph: Graph, points: Sequence[Sizes], doubted: Source | None) -> Node | None:
        """A number that is another at the last point alone, and has nothing to do with what was doubted there: it is
        computed in another function, in a way that the source does not show. Extreme sizes have such numbers."""
        captured = [points[capture % len(points)] for capture in range(graph.captures)]
        usual = [place for place, point in enumerate(captured) if point != points[-1]]
        others = [
            node
            for node in baked_nodes(graph)
            if len({node.inputs["at"][place] for place in usual}) == 1
            and not (doubted is None or node.source is None or node.source.function == doubted.function)
        ]
        if not others:
            return None
        numbers = self._numbers()
        return next((node for node in others if not numbers.are_shown(node, captured)), None)

    def _numbers(self) -> Numbers:
        return Numbers(self.axes, self.tracer.inputs.tensors, list(self._source().numbers()))

    def _tell_untried(self, graph: Graph, refused: list[Sizes]) -> None:
        """Warn of conditions that turn at sizes which were not tried."""
        told: set[Source] = set()
        points, tensors = self._captured(graph), self.tracer.inputs.tensors
        for probe in probes(self._doubts(graph), self.axes, points, refused, tensors):
            source, squeezed = probe.doubt.source, probe.doubt.relation == "squeezed"
            if source is None or source in told or not (squeezed or isinstance(probe.doubt, Condition)):
                continue
            told.add(source)
            tell = dropped_axis if squeezed else untried_condition
            self.warnings.append(tell(source, probe.point))

    def _captured(self, graph: Graph) -> list[Sizes]:
        """The points of the graph's captures: scripts with run-time numbers need more, for which they are repeated."""
        return [self.points[capture % len(self.points)] for capture in range(graph.captures)]

    def _doubts(self, graph: Graph) -> list[Doubt | Condition]:
        """What the graph or the source says to depend on how sizes relate."""
        traced = traced_conditions([run.frozen for run in self.runs])
        lengths = [{axis.label: length for axis in self.axes} for length in SAMPLED]
        shapes = [sizes.shapes_at(self.tracer.inputs.tensors, self.axes, point) for point in lengths]
        return [*graph.doubts, *traced, *self._source().conditions(), *read_numbers(self.runs[0].frozen, shapes)]

    def _source(self) -> SizeSource:
        first = self.runs[0]

        def used() -> Iterator[Source]:
            sources = dict.fromkeys(record.source for record in first.trace.records)
            return (source for source in sources if source is not None)

        def attributes(name: str) -> list[int]:
            return integers_named(name, self.tracer.paths.values())

        def tables(name: str) -> list[Any]:
            return tables_named(name, self.tracer.paths.values())

        return SizeSource(first.frozen, used, attributes, tables)

    def _solved(self, graph: Graph) -> Graph:
        """The common graph with traces at sizes that tell apart what Python may have computed from sizes."""
        if not baked_nodes(graph):
            return graph
        tensors = self.tracer.inputs.tensors
        refused: list[Sizes] = []
        numbers = self._numbers()
        for _ in range(BAKED_TRACES):
            telling = numbers.telling_points(graph, self._captured(graph), len(self.points))
            wanted = (p for p in telling if p is None or p not in refused)
            point = next((p for p in wanted if p is None or worth_tracing(p, self.axes, tensors)), {})
            if point == {}:
                break
            try:
                if point is None:
                    self.add(*self._at_some(self.axes))
                else:
                    self.add(self.tracer.run(sizes.resize(tensors, self.axes, point)), point)
            except REFUSALS as error:
                if point is None:
                    self._check_enough(graph, error)
                    break
                refused.append(point)
                continue
            try:
                graph = self._align()
            except DynamicAxisError:
                if point is None or not numbers.is_between(point, self.points[:-1]):
                    raise
                # Another path, at a size that nothing else asked for: it tells nothing of the number.
                self.runs.pop()
                refused.append(self.points.pop())
        numbers.solve(graph, self._captured(graph), refused)
        return graph

    def _check_enough(self, graph: Graph, refusal: Exception) -> None:
        """Two sizes fit too much to tell how a number follows from them, if the model takes no third."""
        node = next((node for node in baked_nodes(graph) if node.outputs[0].size not in self._axis_sizes(graph)), None)
        if isinstance(refusal, NoFurtherSizes) or node is None or len(self.points) >= POINTS_FOR_A_SIZE:
            return
        seen = "; ".join(f"{n} at {shown(p)}" for n, p in zip(node.inputs["at"], self._captured(graph), strict=True))
        raise DynamicAxisError(
            f"{node.source or 'the model'}: a number that Python computed from a size is {seen}, and the model refuses "
            f"the other sizes that were tried ({raised_at(refusal) or 'the model'}: {type(refusal).__name__}: "
            f"{refusal}), so that nothing tells what it is there. Compute it from x.shape with tensor operations, give "
            f'the sizes that the model takes as a range (torch.export.Dim("{self.axes[0].label}", min=..., max=...)), '
            "or leave the axis static."
        )

    def _axis_sizes(self, graph: Graph) -> set[Size]:
        return {size_of(point[axis.label] for point in self._captured(graph)) for axis in self.axes}

    def _freeze_followed(self) -> None:
        """Numbers that are followed are frozen all the same where they decide a size that never changed."""
        for run in self.runs:
            run.frozen[:] = [replace(found, harmless=found.harmless and not found.followed) for found in run.frozen]

    def tried(
        self, tensors: Sequence[torch.Tensor], point: Sizes, parted: list[Run], scrambled: int | None
    ) -> tuple[Run, Graph] | None:
        """One more trace, and the graph with it; None where the model refuses, or takes another path (``parted``)."""
        self.tracer.scrambled = scrambled
        try:
            run = self.tracer.run(tensors)
        except REFUSALS:
            return None
        finally:
            self.tracer.scrambled = None
        try:
            return run, self._align(run, point)
        except DynamicAxisError:
            parted.append(run)
        except REFUSALS:
            pass
        return None


def _kinds(run: Run) -> list[str]:
    return [record.kind for record in run.trace.records]
