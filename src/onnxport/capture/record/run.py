"""Capture by recording: one run of the model, and its sizes as expressions of the dynamic axes."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.axes.axis import Axis, Sizes, form_name
from onnxport.capture.model.inputs import Inputs
from onnxport.capture.model.refusals import REFUSALS, NoTensor
from onnxport.capture.model.runner import NUMBERS, ModelRunner, copies
from onnxport.capture.model.structure import Structure
from onnxport.capture.record import drawing
from onnxport.capture.record.calls import control_flow, module_calls, scans, script_calls
from onnxport.capture.record.calls.autograd_functions import call_function
from onnxport.capture.record.numbers import carriers, leftovers
from onnxport.capture.record.numbers.carriers import CARRIERS
from onnxport.capture.record.numbers.carriers import number_of as recorded_number
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import Outcomes, Record, Ref
from onnxport.capture.record.recorder import Recorder
from onnxport.capture.record.source_lines import running_stack
from onnxport.capture.record.speculation import Speculation, speculating
from onnxport.capture.record.tracing import Answers
from onnxport.errors import ExportError
from onnxport.graph.sizes import Shape, Size
from onnxport.graph.sizes import axis as axis_leaf


@dataclass(frozen=True)
class Kept:
    """A tensor that was computed in a run, and is held by something after it that is not its result."""

    tensor: weakref.ref[torch.Tensor]
    ref: Ref


@dataclass
class Run:
    """One recorded run: the record, what the model returned, and how that is put together again."""

    record: Record
    structure: Structure
    leaves: list[Any]
    parameters: dict[int, tuple[str, torch.Tensor]]
    draws: bool  # whether random numbers were drawn outside of torch, and not from a seed
    drawing: drawing.End
    kept: list[Kept] = field(default_factory=list)


def record_run(
    runner: ModelRunner,
    tensors: Sequence[torch.Tensor],
    *,
    symbolic: bool,
    forced: dict[int, bool] | None = None,
    outcomes: Outcomes | None = None,
    answers: Answers,
) -> Run:
    """One run of the model on these tensors, after a warm-up call if the first call changes the model.

    Conditions, by their number in the run, may be forced, and the ``outcomes`` of those on data. ``answers`` is what
    functions hear that ask whether they are traced.
    """

    def record(given: Sequence[torch.Tensor], speculation: Speculation) -> Run:
        make = functools.partial(Recorder, symbolic=symbolic, forced=forced, outcomes=outcomes, speculation=speculation)
        run = _record(runner, given, make, answers)
        if not run.record.drawn and not run.draws:
            return run
        return _with_seeds(run, _record(runner, given, make, answers, drawing.elsewhere(run.drawing.generators)))

    def record_warmed(given: Sequence[torch.Tensor], speculation: Speculation) -> Run:
        try:
            run = record(given, speculation)
        except ExportError:
            raise
        except REFUSALS:
            if not runner.has_to_warm_up(refused=True):
                raise
        else:
            if not runner.has_to_warm_up():
                return run
        return record(given, speculation)

    return speculating(runner, tensors, record_warmed)


def _with_seeds(run: Run, other: Run) -> Run:
    """The run, with the random numbers named that are the same in another one from other states of the generators."""
    pairs = zip(run.record.drawn.items(), other.record.drawn.values(), strict=False)
    seeded = frozenset(number for (number, mine), theirs in pairs if torch.equal(mine.state, theirs.state))
    draws = run.draws and not run.drawing.draws_as(other.drawing)
    return replace(run, record=replace(run.record, seeded=seeded), draws=draws)


def _record(
    runner: ModelRunner,
    tensors: Sequence[torch.Tensor],
    make: Callable[..., Recorder],
    answers: Answers,
    generators: contextlib.AbstractContextManager[None] | None = None,
) -> Run:
    with runner.untouched() as state, generators or contextlib.nullcontext():
        recorder = make(state.before_write)
        if runner.keeps_stacks:
            recorder.line = functools.partial(running_stack, Inputs.call.__code__)
        record = recorder.record
        given = copies(tensors)
        for tensor in given:
            record.inputs.append(recorder.values.new(tensor))
        parameters = {}
        for name, tensor in runner.parameters:
            ref = recorder.values.constant(tensor)
            parameters[ref.number] = name, tensor
        before = drawing.state()
        try:
            with _recordable(runner, recorder, answers), recorder.recording():
                leaves, structure, intermediates = runner.call(given)
        except BaseException as error:
            leftovers.let_go(error)
            leftovers.make_plain(recorder.given)
            raise
        after = drawing.state()
        leaves = _with_truths(runner, leaves, bool(record.conditions))
        computed = sum(isinstance(leaf, torch.Tensor) or type(leaf) in CARRIERS for leaf in leaves)
        if not computed or runner.names > computed:
            # Numbers are what this model computes, of sizes that are fixed, or outputs that have a name.
            leaves = [torch.tensor(leaf) if type(leaf) in NUMBERS else leaf for leaf in leaves]
        outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) or type(leaf) in CARRIERS]
        record.outputs = [
            recorder.ref(leaf) if isinstance(leaf, torch.Tensor) else recorded_number(leaf)
            for leaf in (*outputs, *intermediates)
        ]
        leftovers.make_plain(recorder.given, keep=(leaves, outputs))
    runner.numbers.update({i: type(recorded_number(x).value) for i, x in enumerate(leaves) if type(x) in CARRIERS})
    if not outputs:
        raise NoTensor
    kept = list(_kept(recorder, [leaf for leaf in (*leaves, *intermediates) if isinstance(leaf, torch.Tensor)]))
    end = drawing.End(before, after, recorder.generators)
    return Run(record, structure, leaves, parameters, after != before, end, kept)


def _with_truths(runner: ModelRunner, leaves: list[Any], decided: bool) -> list[Any]:
    """The leaves, with truth values that depend on the path as tensors: each path has its own constant.

    That one does is known once another path was run, or at once where there is nothing else to export.
    """
    given = {index: leaf for index, leaf in enumerate(leaves) if type(leaf) is bool}
    if decided and len(given) == sum(leaf is not None for leaf in leaves):
        runner.give_truths(given)
    for index, leaf in given.items():
        runner.truths_seen.setdefault(index, set()).add(leaf)
    return [torch.tensor(leaf) if index in runner.truths else leaf for index, leaf in enumerate(leaves)]


def _kept(recorder: Recorder, results: Sequence[torch.Tensor]) -> Iterator[Kept]:
    memory = {compat.storage_key(result) for result in results if result.layout is torch.strided}
    for reference, ref in recorder.values.computed():
        tensor = reference()
        # A view holds what it is a view of.
        if tensor is not None and tensor.layout is torch.strided and compat.storage_key(tensor) not in memory:
            yield Kept(reference, ref)


@contextlib.contextmanager
def _recordable(runner: ModelRunner, recorder: Recorder, answers: Answers) -> Iterator[None]:
    def is_traced(asking: list[CodeType], scripted: Any) -> bool:
        return STATE.listener is not None and answers.is_traced(asking, scripted)

    with (
        compat.patches.answering_as_traced(is_traced),
        compat.patches.replaced(torch, "cond", control_flow.cond_on_sizes),
        compat.patches.replaced(torch, "sym_sum", carriers.sum_of),
        compat.patches.replaced(*compat.higher_order.HALVING, functools.partial(scans.associative_scan, recorder)),
        compat.stateless.calls_run(),
        compat.forks.run_at_once(),
        compat.autograd_functions.called_directly(runner.keeps, functools.partial(call_function, recorder)),
        script_calls.recorded(recorder, runner.scripts),
        module_calls.scoped(recorder, runner.paths, runner.module_calls),
    ):
        yield


def input_shapes(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], rows: Sequence[Sizes]) -> list[Shape]:
    """The shapes of the inputs as expressions of the axes, which have these sizes at the evaluation points."""
    leaves = {axis.label: _leaf(axis, [row[axis.label] for row in rows]) for axis in axes}
    shapes: list[list[Size]] = [list(tensor.shape) for tensor in tensors]
    for axis in axes:
        for index in axis.input_dims:
            shapes[index[0]][index[1]] = _place_size(axis, index, leaves)
    return [tuple(shape) for shape in shapes]


def _leaf(axis: Axis, at: Sequence[int]) -> Size:
    """The size of an axis. Where no input has it itself, it is computed from the first place, such as ``2*n + 1``."""
    if any(index not in axis.forms and index not in axis.plus for index in axis.input_dims):
        return axis_leaf(axis.label, at)
    form = next(form for index, form in axis.forms.items() if index not in axis.plus)
    offset, factor = form(0), form(1) - form(0)
    return (axis_leaf(form_name(axis.label, form), [form(size) for size in at]) - offset) // factor


def _place_size(axis: Axis, index: tuple[int, int], leaves: dict[str, Any]) -> Size:
    form = axis.forms.get(index)
    size: Size = leaves[axis.label]
    if form is not None:
        size = size * (form(1) - form(0)) + form(0)
    for label in axis.plus.get(index, ()):
        size = size + leaves[label]
    return size
