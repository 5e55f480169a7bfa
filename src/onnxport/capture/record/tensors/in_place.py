"""Writes that change what a tensor is known as: ``x[mask] = values``, ``x.resize_(3, 2)`` and ``x.set_(storage)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record import arguments
from onnxport.capture.record.numbers.carriers import plain
from onnxport.capture.record.record import Record, Ref
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.tensors.sized_tensors import symbolic

ATEN = torch.ops.aten
INDEX_PUT, VIEW = ATEN.index_put_.default, ATEN.view.default
RESIZE, RESIZE_AS = ATEN.resize_.default, ATEN.resize_as_.default


def with_whole_values(
    record: Record, args: Sequence[Any], given: tuple[Any, ...], value: Ref | None
) -> tuple[Any, ...]:
    """The arguments of ``index_put_``, as the record has them, with the ``value`` that Python gave.

    C++ drops leading axes of the value that are 1 long. How long one is may depend on the data, of which the example
    has one; and the operator broadcasts, so that they may as well stay, if there are not too many of them.
    """
    last = record.calls[-1] if record.calls else None
    if last is None or value is None or last.op is not VIEW or (last.args[0], last.results) != (value, [given[2]]):
        return given
    if len(record.types[value.number][1]) > _rank(args[0], args[1]):
        return given
    record.calls.pop()
    return (*given[:2], value, *given[3:])


def _rank(tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> int:
    """How many axes a tensor has where it is indexed so. A mask stands for as many axes as it has."""
    masks = (torch.bool, torch.uint8)
    found = [index for index in indices if index is not None]
    taken = sum(index.dim() if index.dtype in masks else 1 for index in found)
    return tensor.dim() - taken + max(1 if index.dtype in masks else index.dim() for index in found)


def resized(recorder: Recording, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """The tensor after ``resize_``, which gives it other sizes in the memory that it has: a view of what it was."""
    tensor: torch.Tensor = args[0]
    size = args[1]
    if op is RESIZE_AS:
        size = [symbolic(recorder, size, axis) for axis in range(size.dim())]
    with compat.dispatch.seen_again(), compat.dispatch.unaided():
        view = _view(tensor, list(size))
    ref = recorder.ref(view)
    recorder.before_write(tensor)
    RESIZE(tensor, [plain(length) for length in size], **kwargs)
    recorder.values.alias(tensor, ref)
    return tensor


def moved(recorder: Recording, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """The tensor after ``set_``, which lays it in other memory: that of a known tensor, or of a constant."""
    tensor: torch.Tensor = args[0]
    recorder.before_write(tensor)
    op(*arguments.plain(args), **{name: arguments.plain(value) for name, value in kwargs.items()})
    recorder.values.forget(tensor)
    return tensor


def _view(tensor: torch.Tensor, size: list[Any]) -> torch.Tensor:
    """The elements in the order of the memory. What lies behind the last one may be anything: zeros."""
    count = math.prod(size)
    missing = plain(count) - tensor.numel()
    if not tensor.is_contiguous() or 0 < missing <= _elements_behind(tensor):
        strides = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
        return ATEN.as_strided.default(tensor, size, strides, tensor.storage_offset())  # type: ignore[no-any-return]
    flat = ATEN.reshape.default(tensor, [-1])
    if missing > 0:
        zeros = ATEN.new_zeros.default(tensor, [count - tensor.numel()])
        flat = ATEN.cat.default([flat, zeros])
    elif missing < 0:
        flat = ATEN.slice.Tensor(flat, 0, 0, count)
    return ATEN.view.default(flat, size)  # type: ignore[no-any-return]


def _elements_behind(tensor: torch.Tensor) -> int:
    """How many elements a tensor's memory has behind those of the tensor, which is contiguous."""
    behind = tensor.untyped_storage().nbytes() // tensor.element_size()
    return int(behind - tensor.storage_offset() - tensor.numel())


# Writes that lay a tensor otherwise in memory, or in other memory.
MOVES = {
    RESIZE: resized,
    RESIZE_AS: resized,
    ATEN.set_.source_Storage: moved,
    ATEN.set_.source_Storage_storage_offset: moved,
}
