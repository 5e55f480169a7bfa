"""A written model without the bytes of its weights, read back from its file.

ONNX Runtime parses a whole message into memory and then copies each weight out of it. What it is given instead is the
rest of the message, in which the large initializers are external data: they are where they are, in the same file, which
it maps into memory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from onnxport.save.proto import ALIGNMENT, INLINE_LIMIT, external_header, initializer_field, length_delimited

_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED_WIDTHS = {1: 8, 5: 4}


@dataclass(frozen=True)
class Outline:
    """The model of a file with its large initializers as external data, and the bytes of all that is external."""

    message: bytes
    external_bytes: int


def outline(path: str) -> Outline | None:
    """The model that is in a file, with references to the data in it; None where it cannot be read."""
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            return _outline(data, os.path.basename(path))
    except (DecodeError, IndexError, KeyError, OSError, ValueError):
        return None  # what is wrong with it is for ONNX Runtime to say


def _outline(data: memoryview, location: str) -> Outline:
    rest, graph = bytearray(), bytearray()
    external = 0
    for number, start, content, end in _fields(data, 0, len(data)):
        if number != onnx.ModelProto.GRAPH_FIELD_NUMBER:
            rest += data[start:end]
            continue
        for inner, first, inside, last in _fields(data, content, end):
            if inner == onnx.GraphProto.INITIALIZER_FIELD_NUMBER:
                initializer, nbytes = _initializer(data, inside, last, location)
                graph += initializer_field(initializer)
                external += nbytes
            else:
                graph += data[first:last]
    message = bytes(rest) + length_delimited(onnx.ModelProto.GRAPH_FIELD_NUMBER, len(graph)) + bytes(graph)
    return Outline(message, external)


def _initializer(data: memoryview, start: int, end: int, location: str) -> tuple[bytes, int]:
    """An initializer that refers to its data in the file, unless it is small or has to be moved; its external bytes."""
    header = bytearray()
    offset = length = 0
    for number, first, content, last in _fields(data, start, end):
        if number == onnx.TensorProto.RAW_DATA_FIELD_NUMBER:
            offset, length = content, last - content
        elif last - first > INLINE_LIMIT:
            return bytes(data[start:end]), 0  # values in a field of their type
        else:
            header += data[first:last]
    if length > INLINE_LIMIT and offset % ALIGNMENT == 0:
        proto = onnx.TensorProto.FromString(bytes(header))
        return external_header(proto, location, offset, length).SerializeToString(), length
    if not length:
        proto = onnx.TensorProto.FromString(bytes(header))
        return bytes(header), sum(int(entry.value) for entry in proto.external_data if entry.key == "length")
    return bytes(data[start:end]), 0


def _fields(data: memoryview, place: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: the number of each, where it starts, where its content starts, and where it ends."""
    while place < end:
        start = place
        tag, place = _varint(data, place)
        kind = tag & 7
        content = place
        if kind == _VARINT:
            _, place = _varint(data, place)
        elif kind == _LENGTH_DELIMITED:
            length, content = _varint(data, place)
            place = content + length
        else:
            place += _FIXED_WIDTHS[kind]
        if place > end:
            raise ValueError("a field is longer than the message that it is in")
        yield tag >> 3, start, content, place


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        place, value, shift = place + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, place
