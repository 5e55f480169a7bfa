"""Capture by tracing: the model runs under torch's tracer at the example's sizes and at others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture import caches, drawing, extremes, keys, sizes, warming
from onnxport.capture.branches import BranchError
from onnxport.capture.draw import other_data
from onnxport.capture.frozen import FrozenValue, Watch, raised_at
from onnxport.capture.functions import check_nested_tensors, has_symbolic
from onnxport.capture.inputs import Inputs
from onnxport.capture.liberty import Liberty
from onnxport.capture.modules import ModuleCalls
from onnxport.capture.reader import read, type_of
from onnxport.capture.refusals import REFUSALS
from onnxport.capture.returned import common_leaf
from onnxport.capture.roots import Roots, outermost_scripts
from onnxport.capture.sizes import Axis, Sizes
from onnxport.capture.state import ModelState, WriteGuard, training_mode
from onnxport.capture.structure import Structure, flatten, flatten_like
from onnxport.capture.together import Dispute, Run, Together
from onnxport.errors import CaptureError, DynamicAxisError, ExportError
from onnxport.graph.dims import Dim, size
from onnxport.graph.ir import Graph

NUMBERS = (int, float, bool)
NO_TENSOR = "the model returns no tensor: there is nothing to export"


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
    fixed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    axis_warnings: list[str] = field(default_factory=list)
    checks: list[Sizes] | None = None  # the points to check at, where they are chosen already


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
        self.scripts = outermost_scripts(self.paths)
        self.result: Any = None  # what a scripted model returns, where that has lists of unknown length
        self.returned: dict[int, Any] = {}  # what the last plain call gave in the places of constants
        self.numbers: dict[int, type] = {}  # the places of outputs that are Python numbers, a size for one
        self.keeps: Callable[[Any], bool] = has_symbolic
        self.module_calls = ModuleCalls()
        self.liberty = Liberty()
        self.scrambled: int | None = None  # the seed for other content of what is counted
        self.turned = False  # whether conditions on data turn out otherwise than the data say
        self.also: Sequence[Sizes] = ()  # sizes to trace at beside those that are chosen
        self.changed = False  # whether some call has changed something in the model
        self.warmth: warming.Warmth | None = None  # known once a call has changed something

    def run(self, tensors: Sequence[torch.Tensor]) -> Run:
        """One traced call."""
        try:
            run = self._run(tensors)
        except REFUSALS:
            if not warming.has_to_warm_up(self, refused=True):
                raise
        else:
            if not warming.has_to_warm_up(self):
                return run
        return self._run(tensors)

    def _run(self, tensors: Sequence[torch.Tensor]) -> Run:
        """One traced call, which takes liberties if that changes nothing."""
        try:
            run, graph = self._watched_run(tensors)
            if self.liberty.agrees(lambda: self._compared(run, graph, tensors)):
                return run
        except REFUSALS:
            if not self.liberty.used:
                raise
        self.liberty.allowed = False
        return self._watched_run(tensors)[0]

    def _compared(
        self, run: Run, graph: torch.Graph, tensors: Sequence[torch.Tensor]
    ) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
        """What a traced call and a plain one give; then what the trace and the model make of other data.

        The latter tells whether the trace holds a number that it should have followed. Where one is known to be frozen,
        which the user is told of, other data shows no more than that.
        """
        constants = [place for place, leaf in enumerate(run.leaves) if not isinstance(leaf, torch.Tensor)]
        yield [leaf for leaf in run.leaves if isinstance(leaf, torch.Tensor)], self._execute(tensors, constants)
        if not all(value.harmless for value in run.frozen):
            return
        for other in other_data(self.inputs.tensors, tensors):
            try:
                plain = self._execute(other, constants)
            except REFUSALS:
                continue
            with self._untouched():
                parameters = [tensor.clone() if self.changed else tensor for _, tensor in self.parameters]
                yield compat.run_graph(graph, [*_copies(other), *parameters]), plain

    def _watched_run(self, tensors: Sequence[torch.Tensor]) -> tuple[Run, torch.Graph]:
        count = len(tensors)
        called: dict[str, Any] = {}

        def run_flat(*flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
            called["leaves"], called["structure"], intermediates = self._call(flat[:count])
            leaves = enumerate(called["leaves"])
            self.numbers.update({i: int for i, x in leaves if isinstance(x, torch.Tensor) and compat.is_traced_size(x)})
            outputs = [leaf for leaf in (*called["leaves"], *intermediates) if isinstance(leaf, torch.Tensor)]
            for output in outputs:
                compat.traced_value(output)  # makes a constant known to the trace, which refuses unknown outputs
            check_nested_tensors(count)
            watch.branches.check_scopes(outputs)
            return tuple(outputs)

        with self._untouched() as state, compat.in_onnx_export():
            held = set(range(count, count + len(self.parameters)))
            watch = Watch(state, held, self.keeps, self.liberty, self.scrambled)
            watch.branches.turned = self.turned
            before = drawing.state()
            flat = [*_copies(tensors), *(tensor for _, tensor in self.parameters)]
            given = [type_of(tensor) for tensor in flat]
            with watch, self._recordable():
                graph = _trace(run_flat, flat, [script for _, script in self.scripts])
            draws = drawing.state() != before
        if not any(isinstance(leaf, torch.Tensor) for leaf in called["leaves"]):
            raise CaptureError(NO_TENSOR)
        trace = read(graph, self.scripts, watch.stacks, watch.direct.records, given)
        return Run(trace, called["structure"], called["leaves"], watch.frozen, draws), graph

    @contextlib.contextmanager
    def _recordable(self) -> Iterator[None]:
        """What the tracer cannot follow is done in other ways meanwhile, and what it does not tell is noted."""
        with (
            extremes.followed(),
            keys.noted(),
            compat.stateless.calls_run(),
            compat.forks.run_at_once(),
            compat.functions.called_directly(self.keeps),
            self.module_calls.watched(self.paths),
        ):
            yield

    def in_mode(self) -> contextlib.AbstractContextManager[ModelState]:
        """The model in the mode that is exported, until it is left again."""
        return self._untouched()

    def execute(self, tensors: Sequence[torch.Tensor], constants: Container[int] = ()) -> list[Any]:
        """One plain call: what the model itself computes, as flat tensors.

        ``constants`` are the places in the result that hold no tensor in the traced call. In a plain call a size that
        is returned is a number, which the trace has as a tensor.
        """
        results = self._execute(tensors, constants)
        return self._execute(tensors, constants) if warming.has_to_warm_up(self) else results

    def execute_in_double(self, tensors: Sequence[torch.Tensor], constants: Container[int] = ()) -> list[Any]:
        """One plain call in double precision; the weights are widened as they are used."""
        wide = [compat.double.widened(tensor) for tensor in tensors]
        return self._execute(wide, constants, compat.double.double_precision())

    def _execute(
        self,
        tensors: Sequence[torch.Tensor],
        constants: Container[int],
        precision: contextlib.AbstractContextManager[None] | None = None,
    ) -> list[Any]:
        with self._untouched() as state, WriteGuard(state), precision or contextlib.nullcontext():
            leaves, _, intermediates = self._call(_copies(tensors))
        if all(leaf is None for leaf in leaves):
            raise CaptureError(NO_TENSOR)
        self.returned = {place: leaf for place, leaf in enumerate(leaves) if place in constants}
        self.numbers.clear()
        self.numbers.update({i: type(x) for i, x in enumerate(leaves) if i not in constants and type(x) in NUMBERS})
        outputs = [leaf for place, leaf in enumerate(leaves) if place not in constants]
        return [o if o is None or isinstance(o, list) else torch.as_tensor(o) for o in (*outputs, *intermediates)]

    def advanced(self, tensors: Sequence[torch.Tensor] | None) -> tuple[ModelState, list[str]]:
        """The state that a call on these tensors leaves the model in, and the names of what it changed.

        Without any, no call is made: it is the state that switching the mode leaves the model in.
        """
        with self._untouched() as state, WriteGuard(state):
            if tensors is not None:
                self._call(_copies(tensors))
            changes = state.changed_names()
            return state.advanced(), changes

    def _call(self, tensors: Sequence[torch.Tensor]) -> tuple[list[Any], Structure, list[torch.Tensor]]:
        """The leaves of the result, its structure, and the intermediate outputs asked for."""
        with self._intermediate_outputs() as collected:
            output = self.inputs.call(self.model, tensors)
        leaves, structure = flatten(output)
        if self.result is not None:
            leaves = flatten_like(output, self.result)
        return leaves, structure, [collected[path] for path in self.intermediates]

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[ModelState]:
        """A call after which model and random generators are as they were. One at a time in the process."""
        with compat.PROCESS_STATE:
            given = ModelState(self.roots.modules())
            torch.clear_autocast_cache()  # weights that an earlier call cast are constants to this one
            try:
                with (
                    compat.random_state(),
                    training_mode(self.roots.modules(), self.train, given),
                    compat.composite_attention(),
                    compat.scripts.plain_execution(),
                    compat.control.called_directly(),
                    torch.no_grad(),
                    warming.warmed(self, given) as state,
                ):
                    yield state
            finally:
                self.changed = given.restore() or self.changed
                torch.clear_autocast_cache()

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


def _trace(function: Callable[..., Any], tensors: Sequence[torch.Tensor], scripts: Sequence[Any]) -> torch.Graph:
    try:
        return compat.trace_graph(function, tensors, scripts)
    except RuntimeError as error:
        place = raised_at(error) or "the model"
        if compat.lost_in_function(error):
            raise CaptureError(
                f"{place}: torch's tracer cannot follow an autograd Function that uses a parameter or another tensor "
                "which is not among its arguments, as reentrant checkpoints do. Hand it the tensor, or call "
                "checkpoint(..., use_reentrant=False)."
            ) from error
        if compat.TRACER_NUMBER_RESULT in str(error):
            raise CaptureError(
                f"{place}: a scripted function that is called here returns a number, a text or None, which torch's "
                "tracer cannot record. Return it as a tensor, or script the module that makes the call."
            ) from error
        if not any(refusal in str(error) for refusal in compat.TRACER_REFUSALS):
            raise
        reason = str(error).partition("\n")[0]
        raise CaptureError(f"{place}: torch's tracer cannot record a call of the model: {reason}") from error


def capture(tracer: Tracer, axes: list[Axis]) -> Capture:
    """Trace the model at the example's sizes and, with dynamic axes, at others; one graph for all of them.

    Optional axes that cannot vary are left as they are in the example.
    """
    try:
        return _capture(tracer, axes)
    except DynamicAxisError:
        if not any(axis.optional for axis in axes):
            raise
    required = [axis for axis in axes if not axis.optional]
    varying = [axis for axis in axes if axis.optional and _varies(tracer, [*required, axis])]
    captured = _capture(tracer, [axis for axis in axes if axis in required or axis in varying])
    captured.fixed = [axis.label for axis in axes if axis not in required and axis not in varying]
    return captured


def _varies(tracer: Tracer, axes: list[Axis]) -> bool:
    try:
        _capture(tracer, axes)
    except DynamicAxisError:
        return False
    return True


def _capture(tracer: Tracer, axes: list[Axis]) -> Capture:
    model, inputs, intermediates = tracer.model, tracer.inputs, tracer.intermediates
    together = Together(tracer, axes)
    try:
        graph = _traced(together)
    except DynamicAxisError:
        if not together.first_differs():
            raise
        first, together = together.runs[0], Together(tracer, axes)
        graph = _traced(together)
        together.warnings += caches.warnings(first, together.runs, len(inputs.tensors))
    runs, axes, points = together.runs, together.axes, together.points
    graph.axes = _labels(axes, [points[capture % len(points)] for capture in range(graph.captures)])
    graph.modules = {"": getattr(model, "__name__", type(model).__name__)}
    graph.modules |= {path: type(module).__name__ for path, module in tracer.paths.items()}
    for value, name in zip(graph.block.inputs, inputs.names, strict=True):
        value.name = name
    constants = {
        i: common_leaf([run.leaves[i] for run in runs], points)
        for i, leaf in enumerate(runs[0].leaves)
        if not isinstance(leaf, torch.Tensor)
    }
    names = [n for i, n in enumerate(runs[0].structure.names) if i not in constants] + list(intermediates)
    # Of what one line reads in the same way, that which is told of comes last and stays.
    found = sorted((f for run in runs for f in run.frozen), key=lambda f: not f.harmless)
    frozen = list({(f.how, f.source): f for f in found}.values())
    distinct = [point for place, point in enumerate(points) if point not in points[:place]]
    disputed, told = together.disputed, together.warnings
    if any(run.draws for run in runs):
        told = [*told, drawing.message(lambda: tracer.execute(tracer.inputs.tensors))]
    return Capture(graph, runs[0].structure, names, constants, axes, distinct, frozen, disputed, warnings=told)


def _traced(together: Together) -> Graph:
    """The common graph of traces at the example's sizes and at others."""
    if sizes.traces_example(together.axes):
        together.add(_trace_example(together.tracer), sizes.example_sizes(together.axes))
    together.trace_elsewhere()
    for point in together.tracer.also:
        together.add_at(point)
    return together.graph()


def _trace_example(tracer: Tracer) -> Run:
    """The first trace; what the model raises only while it is traced is no error of the model's."""
    try:
        return tracer.run(tracer.inputs.tensors)
    except ExportError:
        raise
    except REFUSALS as error:
        failure = error
    tracer.execute(tracer.inputs.tensors)  # raises again if the error is the model's own
    place = raised_at(failure) or "the model"
    if isinstance(failure, BranchError):
        raise CaptureError(f"{raised_at(failure.__cause__ or failure) or place}: {failure}") from failure
    if compat.TRACER_UNKNOWN_TENSOR in str(failure):
        raise CaptureError(
            f"{place}: a tensor that needs a gradient is used here, and is no parameter of the model's. Layers in a "
            "list or in a variable are not the model's: hold them in an nn.ModuleList or an attribute. What another "
            "thread or a gradient computes is not seen by a trace: compute it here, or detach() it if it is a constant."
        ) from failure
    raise CaptureError(
        f"{place}: the model runs, but not while it is traced: "
        f"{type(failure).__name__}: {failure}. Sizes are tensors then; where one is the reason, int(x.shape[i]) helps."
    ) from failure


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A model may write to its inputs."""
    return [tensor.detach().clone() for tensor in tensors]


def _labels(axes: Sequence[Axis], points: Sequence[Sizes]) -> dict[Dim, str]:
    """The names of the inputs' free dimensions: those of the axes, and of what follows from them."""
    labels: dict[Dim, str] = {}
    for axis in axes:
        at = [point[axis.label] for point in points]
        forms = {axis.label: size(at)} | {
            sizes.form_name(axis.label, form): size(map(form, at)) for form in axis.forms.values()
        }
        for place, others in axis.plus.items():
            name = " + ".join((sizes.form_name(axis.label, axis.forms.get(place, int)), *others))
            forms[name] = size(axis.length(place, point) for point in points)
        labels |= {dim: name for name, dim in forms.items() if isinstance(dim, Dim)}
    return labels
