"""A model as protobuf in pieces: everything except the large initializers first, then each of those.

The last field of the message is the graph, and the last fields of the graph are its large initializers. Their sizes are
known, so the lengths of both can be written first, and the `raw_data` need not pass through a protobuf object: it is
written from the tensor's own memory. A second `graph` field for each of them would need no lengths, because protobuf
merges repeated fields, but hand-written readers do not: Netron would show only the last one.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import onnx
import onnx_ir as ir
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from onnxport.errors import SaveError
from onnxport.save.layout import Writable, Written, tensor_bytes, write_tensors
from onnxport.save.open_sizes import SIZES_OPEN, leave_sizes_open
from onnxport.save.stored import References, location

SIZE_LIMIT = 2**31 - 2
"""The largest protobuf message in bytes: ONNX Runtime refuses larger ones."""

INLINE_LIMIT = 1024
"""Initializers up to this many bytes stay in the skeleton: shapes and scalars, which readers want at hand."""

ALIGNMENT = 8
"""What the place of data in a file is a multiple of, so that it can be mapped into memory and used where it is."""

_LENGTH_DELIMITED = 2
"""The wire type of strings, bytes and nested messages."""

_DIMS = onnx.TensorProto.DIMS_FIELD_NUMBER


@dataclass(frozen=True)
class LargeInitializer:
    """An initializer outside the skeleton: `header` is its TensorProto without the data.

    There are `padding` bytes more in front of the data than there have to be: the numbers of its type and of its first
    dimension are written with leading zeros. The type's number, of 32 bits, has five bytes at most: some readers in
    JavaScript take more for ten.
    """

    header: onnx.TensorProto
    tensor: ir.TensorProtocol
    nbytes: int
    padding: int = 0

    @functools.cached_property
    def front(self) -> bytes:
        """What comes before the data in the graph."""
        header = onnx.TensorProto()
        header.CopyFrom(self.header)
        header.ClearField("data_type")
        header.ClearField("dims")
        first, *others = self.header.dims
        in_type = min(self.padding, 4)
        numbers = [
            _number(onnx.TensorProto.DATA_TYPE_FIELD_NUMBER, self.header.data_type, in_type),
            _number(_DIMS, first, self.padding - in_type),
            *(_number(_DIMS, dim) for dim in others),
        ]
        raw_data = length_delimited(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, self.nbytes)
        return initializer_field(header.SerializeToString() + b"".join(numbers) + raw_data, self.nbytes)

    def piece_size(self) -> int:
        return len(self.front) + self.nbytes


@dataclass(frozen=True)
class SplitModel:
    """A model in pieces: all of it but the graph, the graph but for its large initializers, and these.

    Where it `refers` to files, their locations are relative to the folder that the model will be in.
    """

    rest: bytes
    graph: bytes
    large: tuple[LargeInitializer, ...]
    refers: bool = False

    def skeleton(self, following: int = 0) -> bytes:
        """The bytes in front of as many that complete the graph, those of its large initializers; without any, the
        message lacks these."""
        return (
            self.rest + length_delimited(onnx.ModelProto.GRAPH_FIELD_NUMBER, len(self.graph) + following) + self.graph
        )

    @functools.cached_property
    def large_size(self) -> int:
        return sum([initializer.piece_size() for initializer in self.large])

    def size(self) -> int:
        """The bytes of the model as one message."""
        return len(self.skeleton(self.large_size)) + self.large_size

    def fits_message(self) -> bool:
        return self.size() <= SIZE_LIMIT


def split(model: ir.Model, references: References | None = None, folder: Path | None = None) -> SplitModel:
    """Takes a model apart, copying no large tensor. The model is not changed.

    Large initializers that are in a file already, as `references` knows, are external data of a model in `folder`.

    Initializers of subgraphs stay in the skeleton: a nested graph cannot be merged from pieces.
    An initializer gets a value_info only where that says more than the tensor itself: metadata or a doc string.
    """
    proto = ir.to_proto(_without_initializers(model))
    if model.meta.get(SIZES_OPEN):
        leave_sizes_open(proto.graph)
    input_names = {value.name for value in model.graph.inputs}
    large = []
    refers = False
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            raise SaveError(f"the initializer {name!r} has no data")
        if (value.metadata_props or value.doc_string) and name not in input_names:
            ir.serde.serialize_value_into(proto.graph.value_info.add(), value)
        nbytes = 0 if tensor.dtype == ir.DataType.STRING else tensor.nbytes
        place = references.place_of(tensor) if references is not None and nbytes > INLINE_LIMIT else None
        if place is not None and folder is not None:
            where, refers = location(place.path, folder), True
            proto.graph.initializer.append(external_header(_header(name, tensor), where, place.offset, place.length))
        elif nbytes > INLINE_LIMIT:
            large.append(LargeInitializer(_header(name, tensor), tensor, nbytes))
        else:
            proto.graph.initializer.append(_inline(name, tensor))
    graph = _encode(proto.graph)
    proto.ClearField("graph")
    return _aligned(SplitModel(_encode(proto), graph, tuple(large), refers))


def _aligned(model: SplitModel) -> SplitModel:
    """The model with the data of its large initializers at multiples of `ALIGNMENT` in the file.

    Padding can make the lengths that come before the data a byte longer. Where none fits for that reason, which takes a
    length just below a power of 128, the data lies anywhere. That is right, too, but it is not mapped.
    """
    if not model.large:
        return model
    first, *others = model.large
    end = first.nbytes
    large = []
    for initializer in others:
        large.append(_padded(initializer, lambda _, end=end: end))  # type: ignore[misc]
        end += large[-1].piece_size()

    def start(initializer: LargeInitializer) -> int:
        following = initializer.piece_size() + end - first.nbytes
        return len(model.skeleton(following))

    return replace(model, large=(_padded(first, start), *large))


def _padded(initializer: LargeInitializer, start: Callable[[LargeInitializer], int]) -> LargeInitializer:
    """The initializer with its data at a multiple of `ALIGNMENT`; `start` is where it begins itself."""
    likely = -(start(initializer) + len(initializer.front)) % ALIGNMENT
    for padding in (likely, *range(ALIGNMENT + 1)):
        padded = replace(initializer, padding=padding)
        if (start(padded) + len(padded.front)) % ALIGNMENT == 0:
            return padded
    return initializer


def write_message(split_model: SplitModel, file: Writable, written: Written = lambda nbytes: None) -> None:
    """Writes the model as one message, data included."""
    file.write(split_model.skeleton(split_model.large_size))
    write_tensors(((initializer.front, initializer.tensor) for initializer in split_model.large), file, written)


def serialize(model: ir.Model) -> bytes:
    """The bytes of the model as one file."""
    split_model = split(model)
    check_size(split_model)
    return message_bytes(split_model)


def check_size(split_model: SplitModel) -> None:
    """Raises SaveError if the model is too large for one message."""
    if not split_model.fits_message():
        raise SaveError(
            f"the model has {split_model.size():,} bytes, more than the 2 GiB that one protobuf message may have: "
            "save it to a path, with external data"
        )


def message_bytes(split_model: SplitModel) -> bytes:
    buffer = io.BytesIO()
    write_message(split_model, buffer)
    return buffer.getvalue()


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a ModelProto, equal to what parsing `serialize(model)` gives. Its data is a copy of the weights."""
    split_model = split(model)
    proto = onnx.ModelProto()
    proto.ParseFromString(split_model.skeleton())
    for initializer in split_model.large:
        tensor_proto = proto.graph.initializer.add()
        tensor_proto.CopyFrom(initializer.header)
        tensor_proto.raw_data = bytes(tensor_bytes(initializer.tensor))
    return proto


def external_header(header: onnx.TensorProto, location: str, offset: int, length: int) -> onnx.TensorProto:
    """The TensorProto of an initializer whose data is in the file `location`."""
    external = onnx.TensorProto()
    external.CopyFrom(header)
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        external.external_data.add(key=key, value=str(value))
    return external


def initializer_field(tensor: bytes, following: int = 0) -> bytes:
    """The field of a graph that holds an initializer: its bytes, and as many `following` them."""
    return length_delimited(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, len(tensor) + following) + tensor


def length_delimited(number: int, length: int) -> bytes:
    """The tag and length that open a length-delimited field."""
    return bytes([*_varint(number << 3 | _LENGTH_DELIMITED), *_varint(length)])


def _number(field: int, value: int, leading_zeros: int = 0) -> bytes:
    """A field that holds one number."""
    return bytes([*_varint(field << 3), *_varint(value, leading_zeros)])


def _varint(value: int, leading_zeros: int = 0) -> Iterator[int]:
    """The bytes of a number, seven bits each, the lowest first; zeros may follow."""
    while value > 0x7F or leading_zeros > 0:
        leading_zeros -= value <= 0x7F
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


def _without_initializers(model: ir.Model) -> ir.Model:
    """A view of the model without its initializers; the model itself is not changed."""
    graph = model.graph
    view = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=graph,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    return ir.Model(
        cast("ir.Graph", view),  # as GraphView's documentation does it
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=tuple(model.functions.values()),
        metadata_props=model.metadata_props,
        device_configurations=model.device_configurations,
    )


def _header(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    header = onnx.TensorProto(name=name, data_type=tensor.dtype.value, dims=tensor.shape.numpy())
    if tensor.doc_string:
        header.doc_string = tensor.doc_string
    if tensor.metadata_props:
        for key, text in sorted(tensor.metadata_props.items()):
            header.metadata_props.add(key=key, value=text)
    return header


def _inline(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    if tensor.dtype == ir.DataType.STRING:
        proto = ir.serde.serialize_tensor(tensor)
        proto.name = name
    else:
        proto = _header(name, tensor)
        proto.raw_data = bytes(tensor_bytes(tensor))
    return proto


def _encode(proto: onnx.ModelProto | onnx.GraphProto) -> bytes:
    try:
        return bytes(proto.SerializeToString(deterministic=True))
    except EncodeError as error:
        raise SaveError(
            "the model has more than 2 GiB even without its weights; large constants inside nodes or subgraphs cannot "
            "be stored separately; make them parameters or buffers of the model"
        ) from error
