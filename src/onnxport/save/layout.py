"""The data of tensors in ONNX's layout, prepared while earlier data is written.

Most weights are written from their own memory. A weight that is transposed in the file needs a copy, which takes as
long as writing it: a second thread makes it, in slabs, in two alternating buffers.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

Array = np.ndarray[Any, Any]

_SLAB = 2**24
"""Bytes that are copied at once, or one row where that has more."""

_AT_ONCE = 1000
"""Pieces per system call."""

_BYTES_AT_ONCE = 2**20
"""Bytes per system call. A longer one may wait for the disk, measured on ext4: of 15 writes of 400 MB 14 did so with
calls of up to 16 MB, and took three times as long; with 1 MiB none did. The calls themselves cost nothing."""

_SAME_WIDTH: dict[int, Any] = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}
"""Types by the bytes of an element, which numpy and torch both know."""


class Writable(Protocol):
    """A binary stream, as far as writing needs one."""

    def write(self, data: bytes | memoryview, /) -> object: ...


Written: TypeAlias = Callable[[int], object]
"""A function that is called with the number of bytes written."""


def tensor_bytes(tensor: ir.TensorProtocol) -> memoryview:
    """The tensor's data: its own memory if it is contiguous, otherwise a copy."""
    if tensor.dtype.bitwidth < 8:
        # ONNX packs these, while numpy keeps one element per byte.
        return memoryview(tensor.tobytes())
    return _in_order(tensor.numpy())


def write_tensors(
    tensors: Iterable[tuple[bytes, ir.TensorProtocol]], file: Writable, written: Written = lambda nbytes: None
) -> None:
    """Writes the data of each tensor after the bytes that precede it; ``written`` is called with their number."""
    buffers = itertools.cycle((_Buffer(), _Buffer()))
    pending: list[bytes | memoryview] = []
    with ThreadPoolExecutor(1) as copier:
        copied: Future[memoryview] | None = None
        for front, part in _parts(tensors):
            upcoming = copier.submit(next(buffers).fill, part) if isinstance(part, np.ndarray) else None
            if copied is not None:
                pending.append(copied.result())
            if copied is not None or len(pending) >= _AT_ONCE:
                _write(pending, file, written)
            pending.append(front)
            if isinstance(part, memoryview):
                pending.append(part)
            copied = upcoming
        if copied is not None:
            pending.append(copied.result())
        _write(pending, file, written)


def _write(pieces: list[bytes | memoryview], file: Writable, written: Written) -> None:
    """Writes the pieces in order, and releases them. Many per system call take half the time."""
    if isinstance(file, io.BufferedWriter) and sys.platform != "win32":
        file.flush()
        for batch in _batches(pieces):
            nbytes = sum(map(len, batch))
            _write_batch(batch, file.fileno())
            written(nbytes)
    else:
        for piece in pieces:
            file.write(piece)
            written(len(piece))
    pieces.clear()


def _batches(pieces: Iterable[bytes | memoryview]) -> Iterator[list[bytes | memoryview]]:
    """The pieces in groups, and in parts where they are large, for one call each."""
    batch: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        for start in range(0, len(piece), _BYTES_AT_ONCE):
            part = piece if len(piece) <= _BYTES_AT_ONCE else memoryview(piece)[start : start + _BYTES_AT_ONCE]
            if size + len(part) > _BYTES_AT_ONCE or len(batch) == _AT_ONCE:
                yield batch
                batch, size = [], 0
            batch.append(part)
            size += len(part)
    if batch:
        yield batch


def _write_batch(batch: list[bytes | memoryview], descriptor: int) -> None:
    while batch:
        written = os.writev(descriptor, batch)
        while batch and written >= len(batch[0]):
            written -= len(batch.pop(0))
        if written:
            batch[0] = memoryview(batch[0])[written:]


def _parts(tensors: Iterable[tuple[bytes, ir.TensorProtocol]]) -> Iterator[tuple[bytes, memoryview | Array]]:
    """Memory that can be written directly, and slabs of transposed matrices that still have to be copied."""
    for front, tensor in tensors:
        if tensor.dtype.bitwidth < 8:
            yield front, tensor_bytes(tensor)
            continue
        array = tensor.numpy()
        if not _is_transposed(array):
            yield front, _in_order(array)
            continue
        rows = max(1, _SLAB // (array.shape[1] * array.itemsize))
        for start in range(0, array.shape[0], rows):
            yield front if start == 0 else b"", array[start : start + rows]


def _is_transposed(array: Array) -> bool:
    return array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous and array.flags.writeable


def _in_order(array: Array) -> memoryview:
    return _memory(np.ascontiguousarray(array))


def _memory(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


class _Buffer:
    """A buffer that is reused: allocating new pages takes as long as filling them."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.uint8)

    def fill(self, array: Array) -> memoryview:
        """The array's elements in order, valid until the next call."""
        source = torch.from_numpy(array.view(_SAME_WIDTH[array.itemsize]))
        if self._memory.numel() < array.nbytes:
            self._memory = torch.empty(array.nbytes, dtype=torch.uint8)
        # torch's copy goes through tiles that fit a cache; numpy's takes twice the time.
        target = self._memory[: array.nbytes].view(source.dtype).view(source.shape)
        target.copy_(source)
        return _memory(target.numpy())
