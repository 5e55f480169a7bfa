"""A model in two files: the message, and the data of its large initializers beside it."""

from __future__ import annotations

from typing import BinaryIO

import onnx

from onnxport.save.proto import LargeInitializer, SplitModel, piece_without_data, tensor_bytes

_PAGE = 4096
_CACHE_LINE = 64
_PAGE_ALIGNED_FROM = 2**20
"""From this size on a tensor begins on a page, to be mapped into memory; below, that would waste space."""


def write_external(split_model: SplitModel, file: BinaryIO, data_file: BinaryIO, location: str) -> None:
    """Writes the data of the large initializers to `data_file`, and the rest, which names it `location`, to `file`."""
    file.write(split_model.skeleton)
    for initializer in split_model.large:
        offset, length = _append_aligned(initializer, data_file)
        file.write(piece_without_data(_external_header(initializer.header, location, offset, length)))


def _append_aligned(initializer: LargeInitializer, data_file: BinaryIO) -> tuple[int, int]:
    data = tensor_bytes(initializer.tensor)
    alignment = _PAGE if data.nbytes >= _PAGE_ALIGNED_FROM else _CACHE_LINE
    end = data_file.tell()
    padding = -end % alignment
    data_file.write(bytes(padding))
    data_file.write(data)
    return end + padding, data.nbytes


def _external_header(header: onnx.TensorProto, location: str, offset: int, length: int) -> onnx.TensorProto:
    external = onnx.TensorProto()
    external.CopyFrom(header)
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        external.external_data.add(key=key, value=str(value))
    return external
