"""Autocast: its casts are in the record, and the operators on what they gave."""

from __future__ import annotations

from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.arguments import mapped, plain
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.tensors import functorch
from onnxport.capture.record.tensors.sized_tensors import as_sized

ATEN = torch.ops.aten
# These would come apart into one step of the sequence after the other, or into kernels of one CPU. A GRU does come
# apart: its steps mix both precisions.
RECURRENT = frozenset({ATEN.lstm.input, ATEN.gru.input, ATEN.rnn_tanh.input, ATEN.rnn_relu.input})


def handled(recorder: Recording, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call while autocast is on; NotImplemented for one that it does nothing to."""
    dispatch = compat.dispatch
    if not dispatch.casts_now():
        return NotImplemented
    if dispatch.has_autocast_kernel(op):
        recorder.casts += 1
        return dispatch.call_autocast(op, args, kwargs)
    if op in RECURRENT and op(*plain(args))[0].dtype == torch.get_autocast_dtype("cpu"):
        return _recurrent(op, args)
    if dispatch.is_composite(op) and not op._schema.is_mutable:
        return _composite(recorder, op, args, kwargs)
    return NotImplemented


def _composite(recorder: Recording, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator that is made of others: whole, if none of them casts."""
    calls, reads, casts = recorder.record.calls, recorder.record.reads, recorder.casts
    start = len(calls), len(reads)
    with functorch.sized(recorder), compat.dispatch.seen_again():
        result = compat.dispatch.Composite(op)(*mapped(args, as_sized), **_mapped(kwargs))
    if recorder.casts > casts:
        return functorch.left(result)
    del calls[start[0] :], reads[start[1] :]
    return NotImplemented


def _mapped(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: mapped(value, as_sized) for name, value in kwargs.items()}


def _recurrent(op: Any, args: tuple[Any, ...]) -> Any:
    """A recurrent layer that gives results of the lower precision: whole, on cast arguments."""
    dtype = torch.get_autocast_dtype("cpu")

    def cast(leaf: Any) -> Any:
        is_cast = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32
        return leaf.to(dtype) if is_cast else leaf

    with torch.autocast("cpu", enabled=False), compat.dispatch.seen_again():
        return op(*mapped(args, cast))
