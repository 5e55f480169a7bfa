"""Capture by tracing: the model runs under torch's tracer at the example's sizes and at others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture import sizes
from onnxport.capture.align import align
from onnxport.capture.draw import redraw
from onnxport.capture.frozen import FrozenValue, Watch, raised_at
from onnxport.capture.inputs import Inputs
from onnxport.capture.probes import probes
from onnxport.capture.reader import Trace, read
from onnxport.capture.roots import Roots
from onnxport.capture.sizes import Axis, Sizes
from onnxport.capture.state import ModelState, WriteGuard, training_mode
from onnxport.capture.structure import Structure, flatten
from onnxport.errors import CaptureError, DynamicAxisError, ExportError
from onnxport.graph.data_sizes import size_depends_on_data
from onnxport.graph.dims import Dim, size
from onnxport.graph.doubts import Doubt
from onnxport.graph.ir import BAKED, Graph

# What a model raises when it does not take a size; anything else is its own bug and is passed on.
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError, ArithmeticError, AttributeError)

# How often other data is drawn in the hope that a size which depends on data changes.
DATA_ATTEMPTS = 3
# How often the model is traced again where Python computed a number: few points fit many expressions.
BAKED_TRACES = 3
# How often the model is traced again to settle a doubt about the order of two sizes.
PROBES = 6


@dataclass(frozen=True)
class Dispute:
    """A point at which the model takes another path than the graph: only its results can tell whether that matters."""

    point: Sizes
    reason: str


@dataclass
class Capture:
    """A captured model, with what is needed to call its exported form like the model itself."""

    graph: Graph
    structure: Structure
    output_names: list[str]
    constants: dict[int, Any]
    axes: list[Axis]
    points: list[Sizes]
    frozen: list[FrozenValue] = field(default_factory=list)
    disputed: list[Dispute] = field(default_factory=list)


@dataclass
class _Run:
    trace: Trace
    structure: Structure
    leaves: list[Any]
    frozen: list[FrozenValue]


class Tracer:
    """Traces one model, which is given back unchanged after each run."""

    def __init__(
        self, model: Callable[..., Any], inputs: Inputs, train: bool | None, intermediates: Sequence[str]
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.train = train
        self.intermediates = list(intermediates)
        self.roots = Roots(model)
        self.parameters = self.roots.tensors()
        self.paths = self.roots.paths()

    def run(self, tensors: Sequence[torch.Tensor]) -> _Run:
        """One traced call."""
        count = len(tensors)
        called: dict[str, Any] = {}

        def run_flat(*flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
            called["leaves"], called["structure"], intermediates = self._call(flat[:count])
            outputs = [leaf for leaf in (*called["leaves"], *intermediates) if isinstance(leaf, torch.Tensor)]
            for output in outputs:
                compat.traced_value(output)  # makes a constant known to the trace, which refuses unknown outputs
            return tuple(outputs)

        with self._untouched() as state, compat.in_onnx_export():
            watch = Watch(state, set(range(count, count + len(self.parameters))))
            with watch, compat.module_scopes({module: path for path, module in self.paths.items() if path}):
                graph = _trace(run_flat, [*_copies(tensors), *(tensor for _, tensor in self.parameters)])
        if not any(isinstance(leaf, torch.Tensor) for leaf in called["leaves"]):
            raise CaptureError("the model returns no tensor: there is nothing to export")
        return _Run(read(graph), called["structure"], called["leaves"], watch.frozen)

    def execute(self, tensors: Sequence[torch.Tensor], constants: Container[int] = ()) -> list[torch.Tensor]:
        """One plain call: what the model itself computes, as flat tensors.

        ``constants`` are the places in the result that hold no tensor in the traced call. In a plain call a size that
        is returned is a number, which the trace has as a tensor.
        """
        with self._untouched() as state, WriteGuard(state):
            leaves, _, intermediates = self._call(_copies(tensors))
        outputs = [leaf for place, leaf in enumerate(leaves) if place not in constants]
        return [torch.as_tensor(output) for output in (*outputs, *intermediates)]

    def _call(self, tensors: Sequence[torch.Tensor]) -> tuple[list[Any], Structure, list[torch.Tensor]]:
        """The leaves of the result, its structure, and the intermediate outputs asked for."""
        with self._intermediate_outputs() as collected:
            output = self.inputs.call(self.model, tensors)
        leaves, structure = flatten(output)
        return leaves, structure, [collected[path] for path in self.intermediates]

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[ModelState]:
        """A call after which model and random generators are as they were. One at a time in the process."""
        with compat.PROCESS_STATE:
            state = ModelState(self.roots.modules())
            try:
                with (
                    compat.random_state(),
                    training_mode(self.roots.modules(), self.train),
                    compat.composite_attention(),
                    torch.no_grad(),
                ):
                    yield state
            finally:
                state.restore()

    @contextlib.contextmanager
    def _intermediate_outputs(self) -> Iterator[dict[str, torch.Tensor]]:
        """What the asked-for submodules return, copied then and there: a later layer may write over it."""
        collected: dict[str, torch.Tensor] = {}
        handles = []
        for path in self.intermediates:

            def keep(module: nn.Module, args: Any, output: Any, path: str = path) -> None:
                tensors = [leaf for leaf in flatten(output)[0] if isinstance(leaf, torch.Tensor)]
                if len(tensors) != 1:
                    raise CaptureError(f"intermediate_outputs: {path!r} returns {len(tensors)} tensors, not one")
                collected[path] = tensors[0].clone()

            handles.append(self.paths[path].register_forward_hook(keep))
        try:
            yield collected
            missing = [path for path in self.intermediates if path not in collected]
            if missing:
                raise CaptureError(f"intermediate_outputs: {', '.join(missing)} did not run in this forward pass")
        finally:
            for handle in handles:
                handle.remove()


def _trace(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> torch.Graph:
    try:
        return compat.trace_graph(function, tensors)
    except RuntimeError as error:
        place = raised_at(error) or "the model"
        if compat.lost_in_function(error):
            raise CaptureError(
                f"{place}: torch's tracer cannot follow an autograd Function that uses a parameter or another tensor "
                "which is not among its arguments, as reentrant checkpoints do. Hand it the tensor, or call "
                "checkpoint(..., use_reentrant=False)."
            ) from error
        if not any(refusal in str(error) for refusal in compat.TRACER_REFUSALS):
            raise
        reason = str(error).partition("\n")[0]
        raise CaptureError(f"{place}: torch's tracer cannot record a call of the model: {reason}") from error


def capture(tracer: Tracer, axes: list[Axis]) -> Capture:
    """Trace the model at the example's sizes and, with dynamic axes, at others; one graph for all of them."""
    model, inputs, intermediates = tracer.model, tracer.inputs, tracer.intermediates
    runs: list[_Run] = []
    points: list[Sizes] = []
    if sizes.traces_example(axes):
        runs.append(_trace_example(tracer))
        points.append(sizes.example_sizes(axes))
    axes = _trace_elsewhere(tracer, axes, runs, points)
    disputed: list[Dispute] = []
    graph = _aligned(tracer, axes, runs, points, disputed)
    graph.axes = {dim: axis.label for axis in axes if isinstance(dim := _dim_of(axis, points), Dim)}
    graph.modules = {"": getattr(model, "__name__", type(model).__name__)}
    graph.modules |= {path: type(module).__name__ for path, module in tracer.paths.items()}
    for value, name in zip(graph.block.inputs, inputs.names, strict=True):
        value.name = name
    constants = {i: leaf for i, leaf in enumerate(runs[0].leaves) if not isinstance(leaf, torch.Tensor)}
    names = [n for i, n in enumerate(runs[0].structure.names) if i not in constants] + list(intermediates)
    frozen = list({(f.how, f.source): f for run in runs for f in run.frozen}.values())
    return Capture(graph, runs[0].structure, names, constants, axes, points[: len(runs)], frozen, disputed)


def _trace_example(tracer: Tracer) -> _Run:
    """The first trace; what the model raises only while it is traced is no error of the model's."""
    try:
        return tracer.run(tracer.inputs.tensors)
    except ExportError:
        raise
    except REFUSALS as error:
        failure = error
    tracer.execute(tracer.inputs.tensors)  # raises again if the error is the model's own
    raise CaptureError(
        f"{raised_at(failure) or 'the model'}: the model runs, but not while it is traced: "
        f"{type(failure).__name__}: {failure}. Sizes are tensors then; where one is the reason, int(x.shape[i]) helps."
    ) from failure


def _aligned(tracer: Tracer, axes: list[Axis], runs: list[_Run], points: list[Sizes], disputed: list[Dispute]) -> Graph:
    """The common graph, with further traces where those so far leave a doubt.

    A part of a size that never changed is tried at one more size; a number that Python computed, at several; sizes
    that something compares, in the other order; sizes that depend on data, on other data.
    """
    count = len(tracer.inputs.tensors)
    graph = align([run.trace for run in runs], count, tracer.parameters)
    baked = any(node.op == BAKED for node in graph.block.nodes)
    for _ in range(BAKED_TRACES if baked else graph.coincidence):
        with contextlib.suppress(*REFUSALS):
            run, point = _trace_at_some(tracer, axes, points)
            runs.append(run)
            points.append(point)
            graph = align([run.trace for run in runs], count, tracer.parameters)
    graph = _settled(tracer, axes, graph, runs, points, disputed)
    if any(size_depends_on_data(node) for node in graph.block.nodes):
        graph = _align_with_other_data(tracer, axes, graph, runs, points)
    return graph


def _settled(
    tracer: Tracer, axes: list[Axis], graph: Graph, runs: list[_Run], points: list[Sizes], disputed: list[Dispute]
) -> Graph:
    """The common graph with traces at the sizes where a condition or a cut would turn out otherwise.

    Another path at such a size may compute the same, as a special case does: it is disputed, not refused.
    """
    example = tracer.inputs.tensors
    refused: list[Sizes] = []
    for _ in range(PROBES):
        doubts = [*graph.doubts, *_conditions(runs)]
        open_doubts = (probe for probe in probes(doubts, axes, points, example) if probe[1] not in refused)
        doubt, point = next(open_doubts, (None, {}))
        if doubt is None:
            break
        try:
            run = tracer.run(sizes.resize(example, axes, point))
        except REFUSALS:
            refused.append(point)
            continue
        try:
            graph = align([*(run.trace for run in runs), run.trace], len(example), tracer.parameters)
        except DynamicAxisError as error:
            at = ", ".join(f"{label}={length}" for label, length in point.items())
            place = f"{doubt.source}: this" if doubt.source else "a condition on a size"
            disputed.append(Dispute(point, f"{place} turns out otherwise at {at}: {error}"))
            refused.append(point)
            continue
        runs.append(run)
        points.append(point)
    return graph


def _conditions(runs: Sequence[_Run]) -> Iterator[Doubt]:
    """The conditions on sizes that Python decided in the same place of every run."""
    for row in zip(*(run.frozen for run in runs), strict=False):
        compared = [value.compared for value in row if value.compared is not None]
        if (
            len(compared) == len(row)
            and len({(value.source, value.compared.name) for value in row if value.compared}) == 1
        ):
            left, right = size(c.left for c in compared), size(c.right for c in compared)
            if isinstance(left, Dim) or isinstance(right, Dim):
                yield Doubt(left, right, compared[0].name in ("eq", "ne", "not_equal"), row[0].source)


def _align_with_other_data(
    tracer: Tracer, axes: list[Axis], graph: Graph, runs: list[_Run], points: list[Sizes]
) -> Graph:
    """The common graph of the traces and one on other data, if some draw changes a size; else the graph as it is."""
    resized = sizes.resize(tracer.inputs.tensors, axes, points[0])
    for seed in range(DATA_ATTEMPTS):
        with contextlib.suppress(*REFUSALS, DynamicAxisError):
            other = tracer.run(redraw(tracer.inputs.tensors, resized, seed)).trace
            found = align([*(run.trace for run in runs), other], len(tracer.inputs.tensors), tracer.parameters)
            if _data_sizes(found) != _data_sizes(graph):
                points.append(points[0])
                return found
    return graph


def _data_sizes(graph: Graph) -> list[bool]:
    """Which dimensions of the nodes that count are free."""
    counted = [node for node in graph.block.nodes if size_depends_on_data(node)]
    tensors = [value for node in counted for value in node.outputs if value.is_tensor]
    return [isinstance(size, Dim) for value in tensors for size in value.shape]


def _trace_elsewhere(tracer: Tracer, axes: list[Axis], runs: list[_Run], points: list[Sizes]) -> list[Axis]:
    """Add traces at other sizes; returns the axes, those given by index tied together if the model needs that."""
    if not axes:
        return axes
    refusal: Exception | None = None
    for candidates in (axes, sizes.tie_unnamed(axes)):
        for _ in range(sizes.points_needed(candidates)):
            try:
                run, point = _trace_at_some(tracer, candidates, points)
            except REFUSALS as error:
                refusal = refusal or error
                break
            runs.append(run)
            points.append(point)
        if len(points) == 1 and points != [sizes.example_sizes(axes)]:
            # One other size is all that the model takes: the example is the second, even with a size of 1.
            runs.append(tracer.run(tracer.inputs.tensors))
            points.append(sizes.example_sizes(axes))
        if len(points) > 1:
            return candidates
    labels = ", ".join(axis.label for axis in axes)
    place = raised_at(refusal) if refusal else None
    raise DynamicAxisError(
        f"{f'{place}: ' if place else ''}the model refuses every other size of its dynamic axes ({labels}): "
        f"{type(refusal).__name__}: {refusal}. "
        "Leave an axis that cannot vary out of dynamic_axes, or give axes that must be equal one name."
    ) from refusal


def _trace_at_some(tracer: Tracer, axes: Sequence[Axis], taken: Sequence[Sizes]) -> tuple[_Run, Sizes]:
    """A trace at the first of the points worth trying that the model does not refuse."""
    static = frozenset(length for tensor in tracer.inputs.tensors for length in tensor.shape)
    refusal: Exception | None = None
    for point in sizes.attempts(axes, taken, static):
        try:
            return tracer.run(sizes.resize(tracer.inputs.tensors, axes, point)), point
        except REFUSALS as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A model may write to its inputs."""
    return [tensor.detach().clone() for tensor in tensors]


def _dim_of(axis: Axis, points: Sequence[Mapping[str, int]]) -> Any:
    return size(point[axis.label] for point in points)
