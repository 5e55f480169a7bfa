"""Capture by recording: one run of the model, and its sizes as expressions of the dynamic axes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture import drawing, warming
from onnxport.capture.record import control_flow, leftovers, module_calls, numbers, script_calls
from onnxport.capture.record.autograd_functions import call_function
from onnxport.capture.record.numbers import CARRIERS
from onnxport.capture.record.numbers import number_of as recorded_number
from onnxport.capture.record.parts import with_single_parts
from onnxport.capture.record.record import Record
from onnxport.capture.record.recorder import Recorder
from onnxport.capture.refusals import REFUSALS
from onnxport.capture.sizes import Axis, Sizes, form_name
from onnxport.capture.structure import Structure
from onnxport.capture.trace import NO_TENSOR, Tracer, _copies
from onnxport.errors import CaptureError
from onnxport.graph.dims import Shape, Size
from onnxport.graph.sizes import axis as axis_leaf


@dataclass
class Run:
    """One recorded run: the record, what the model returned, and how that is put together again."""

    record: Record
    structure: Structure
    leaves: list[Any]
    parameters: dict[int, tuple[str, torch.Tensor]]
    draws: bool  # whether random numbers were drawn outside of torch


def record_run(
    tracer: Tracer,
    tensors: Sequence[torch.Tensor],
    *,
    symbolic: bool,
    forced: dict[int, bool] | None = None,
    as_traced: bool = True,
) -> Run:
    """One run of the model on these tensors, after a warm-up call if the first call changes the model.

    Conditions, by their number in the run, may be forced. ``as_traced`` is what models hear that ask whether they are.
    """
    try:
        run = _record(tracer, tensors, symbolic, forced, as_traced)
    except REFUSALS:
        if not warming.has_to_warm_up(tracer, refused=True):
            raise
    else:
        if not warming.has_to_warm_up(tracer):
            return run
    return _record(tracer, tensors, symbolic, forced, as_traced)


def _record(
    tracer: Tracer, tensors: Sequence[torch.Tensor], symbolic: bool, forced: dict[int, bool] | None, as_traced: bool
) -> Run:
    with tracer._untouched() as state, compat.in_onnx_export():
        recorder = Recorder(state.before_write, symbolic=symbolic, forced=forced)
        record = recorder.record
        given = _copies(tensors)
        for tensor in given:
            record.inputs.append(recorder.values.new(tensor))
        parameters = {}
        for name, tensor in tracer.parameters:
            ref = recorder.values.constant(tensor)
            parameters[ref.number] = name, tensor
        before = drawing.state()
        with _recordable(tracer, recorder, as_traced), recorder.recording():
            leaves, structure, intermediates = tracer._call(given)
        draws = drawing.state() != before
        outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) or type(leaf) in CARRIERS]
        record.outputs = [
            recorder.ref(leaf) if isinstance(leaf, torch.Tensor) else recorded_number(leaf)
            for leaf in (*outputs, *intermediates)
        ]
        leftovers.make_plain(recorder.given, keep=(leaves, outputs))
    tracer.numbers.update({i: type(recorded_number(x).value) for i, x in enumerate(leaves) if type(x) in CARRIERS})
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise CaptureError(NO_TENSOR)
    return Run(with_single_parts(record), structure, leaves, parameters, draws)


@contextlib.contextmanager
def _recordable(tracer: Tracer, recorder: Recorder, as_traced: bool) -> Iterator[None]:
    with (
        compat.patches.answering_as_traced(lambda: as_traced and numbers.STATE.listener is not None),
        compat.patches.replaced(torch, "cond", control_flow.cond_on_sizes),
        compat.stateless.calls_run(),
        compat.forks.run_at_once(),
        compat.functions.called_directly(tracer.keeps, functools.partial(call_function, recorder)),
        script_calls.recorded(recorder, tracer.scripts),
        module_calls.scoped(recorder, tracer.paths, tracer.module_calls),
    ):
        yield


def input_shapes(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], rows: Sequence[Sizes]) -> list[Shape]:
    """The shapes of the inputs as expressions of the axes, which have these sizes at the evaluation points."""
    leaves = {axis.label: _leaf(axis, [row[axis.label] for row in rows]) for axis in axes}
    shapes: list[list[Size]] = [list(tensor.shape) for tensor in tensors]
    for axis in axes:
        for place in axis.places:
            shapes[place[0]][place[1]] = _place_size(axis, place, leaves)
    return [tuple(shape) for shape in shapes]


def _leaf(axis: Axis, at: Sequence[int]) -> Size:
    """The size of an axis. Where no input has it itself, it is computed from the first place, such as ``2*n + 1``."""
    if any(place not in axis.forms and place not in axis.plus for place in axis.places):
        return axis_leaf(axis.label, at)
    form = next(form for place, form in axis.forms.items() if place not in axis.plus)
    offset, factor = form(0), form(1) - form(0)
    return (axis_leaf(form_name(axis.label, form), [form(size) for size in at]) - offset) // factor


def _place_size(axis: Axis, place: tuple[int, int], leaves: dict[str, Any]) -> Size:
    form = axis.forms.get(place)
    size: Size = leaves[axis.label]
    if form is not None:
        size = size * (form(1) - form(0)) + form(0)
    for label in axis.plus.get(place, ()):
        size = size + leaves[label]
    return size
