"""The header of a safetensors file: what tensors it has, and where. Nothing in it is taken on trust."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from onnxport.errors import OptionError

_DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "C64": torch.complex64,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "BOOL": torch.bool,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Entry:
    """A tensor of a file: its type, its shape, and the bytes that it has there."""

    path: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    length: int


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file by their names."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(_LENGTH_BYTES)
            length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH_BYTES else size
            if length + _LENGTH_BYTES > size:
                raise OptionError(f"weights: {path} is no safetensors file, or it is cut off in its header")
            header = json.loads(file.read(length))
    except OSError as error:
        raise OptionError(f"weights: {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"weights: {path} is no safetensors file: its header is no JSON") from error
    if not isinstance(header, dict):
        raise OptionError(f"weights: {path} is no safetensors file: its header is a {type(header).__name__}")
    data = _LENGTH_BYTES + length
    return {name: _entry(path, name, entry, data, size) for name, entry in header.items() if name != "__metadata__"}


def _entry(path: Path, name: str, entry: Any, data: int, size: int) -> Entry:
    try:
        dtype, shape, (start, end) = _DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
            raise ValueError
        fits = start <= end and end - start == math.prod(shape) * dtype.itemsize
    except KeyError as error:
        raise OptionError(
            f"weights: {path}: the tensor {name!r} has {error} in its header, which is unknown"
        ) from error
    except (TypeError, ValueError) as error:
        raise OptionError(f"weights: {path}: the header of the tensor {name!r} is damaged") from error
    if not fits:
        raise OptionError(f"weights: {path}: the tensor {name!r} of shape {list(shape)} has {end - start} bytes")
    if data + end > size:
        raise OptionError(
            f"weights: {path} is cut off: the tensor {name!r} ends at {data + end:,}, and the file has {size:,} bytes"
        )
    return Entry(path, dtype, shape, data + start, end - start)
