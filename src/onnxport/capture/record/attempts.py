"""Calls whose errors the model handles: whether they raise one is a condition of the model."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record import arguments
from onnxport.capture.record.handlers import RAISED
from onnxport.capture.record.record import ATTEMPT, Number
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import running_line
from onnxport.errors import DynamicAxisError


def run(recorder: Recording, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, Any]) -> Any:
    """The result of an operator, whose arguments the record has as ``given``.

    What it raises ends the run, unless the model handles it.
    """
    try:
        result = op(*arguments.plain(args), **{name: arguments.plain(value) for name, value in kwargs.items()})
    except RAISED:
        _note(recorder, op, given, taken=False)
        raise
    if recorder.symbolic and recorder.handles_errors():
        _note(recorder, op, given, taken=True)
    return result


def note_refused(recorder: Recording, function: Any, args: tuple[Any, ...], conditions: int) -> None:
    """A function of torch raises. If the record has no more conditions than before the call, the sizes of the arguments
    may be the reason without a comparison that was seen."""
    if function is torch.Tensor.__getitem__ and recorder.symbolic and recorder.handles_errors():
        _select_what_is_missing(recorder, *args)
    if not recorder.symbolic or len(recorder.record.conditions) > conditions:
        return
    for tensor in (argument for argument in args if isinstance(argument, torch.Tensor)):
        ref = recorder.ref(tensor)
        for axis, size in enumerate(recorder.record.types[ref.number][1]):
            recorder.note_loss("raise", Number(size, "size", (ref, axis)))


def _select_what_is_missing(recorder: Recording, tensor: torch.Tensor, index: Any) -> None:
    """Indexing looks at sizes itself, before it calls an operator: here is the operator that it would call."""
    parts = index if isinstance(index, tuple) else (index,)
    shape = recorder.record.types[recorder.ref(tensor).number][1]
    axes = len(shape) - sum(part is not None and part is not Ellipsis for part in parts)
    axis = 0
    for part in parts:
        if isinstance(part, torch.Tensor) or type(part) in (bool, list):
            return
        if isinstance(part, int) and axis < len(shape) and not -shape[axis] <= part < shape[axis]:
            with contextlib.suppress(IndexError):
                torch.ops.aten.select.int(tensor, axis, part)
            return
        axis += axes if part is Ellipsis else part is not None


def _note(recorder: Recording, op: Any, given: tuple[Any, Any], *, taken: bool) -> None:
    source = running_line()
    leaves, structure = compat.tree_flatten(given)
    number = Number(taken, ATTEMPT, (op, structure, source, *leaves))
    if recorder.note_condition("ne", number, 0, taken) is not taken:
        raise DynamicAxisError(
            f"{source or 'the model'}: {op.name()} raises an error that the model handles, at some sizes only, which "
            "are too far from those of the example to try. Compare the sizes instead, or leave the axis static."
        )
