"""Loads models: a message, its bytes, or a path; external data only from the model's own folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx.external_data_helper import load_external_data_for_tensor

from onnxport.errors import BackendError

ModelLike: TypeAlias = "onnx.ModelProto | bytes | str | os.PathLike[str]"


@dataclass
class Loaded:
    """A model and its file; the content of external tensors is read when it is needed."""

    proto: onnx.ModelProto
    path: Path | None
    has_external_data: bool

    def read_external_data(self) -> None:
        """Load all tensors into the message."""
        if not self.has_external_data:
            return
        assert self.path is not None
        for tensor in tensors_of(self.proto):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                load_external_data_for_tensor(tensor, str(self.path.parent))
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
        self.has_external_data = False


def load(model: ModelLike) -> Loaded:
    """Read a model and check the location of its external data."""
    path: Path | None = None
    if isinstance(model, onnx.ModelProto):
        proto = model
    elif isinstance(model, bytes):
        proto = _parsed(model, "the bytes")
    elif isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            proto = _parsed(path.read_bytes(), str(path))
        except OSError as error:
            raise BackendError(f"{path} cannot be read: {error}") from error
    else:
        raise BackendError(f"a model is a ModelProto, its bytes or a path, not {type(model).__name__}")
    external = [tensor for tensor in tensors_of(proto) if tensor.data_location == onnx.TensorProto.EXTERNAL]
    for tensor in external:
        _check_location(tensor, path)
    return Loaded(proto, path, bool(external))


def _parsed(content: bytes, source: str) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise BackendError(f"{source} is not an ONNX model: {error}") from error
    if not proto.HasField("graph"):
        raise BackendError(f"{source} is not an ONNX model: it has no graph")
    return proto


def _check_location(tensor: onnx.TensorProto, path: Path | None) -> None:
    """Refuse external data outside the model's folder, by its path or through links."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    if path is None:
        raise BackendError(
            f"the tensor {tensor.name!r} is in another file, {location!r}: pass the model as a path, or load its "
            "data first (onnx.load does)"
        )
    folder = path.parent.resolve()
    target = (folder / location).resolve()
    if not location or os.path.isabs(location) or not target.is_relative_to(folder):
        raise BackendError(f"the tensor {tensor.name!r} refers to {location!r}, which is outside the model's folder")
    if not target.is_file():
        raise BackendError(f"the tensor {tensor.name!r} refers to {location!r}, which is not in the model's folder")


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that is stored in the model."""
    for graph in (model.graph, *(info.initialization for info in model.training_info)):
        yield from _tensors_in(graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_in(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (
                *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else ()),
                *attribute.sparse_tensors,
            ):
                yield from (sparse.values, sparse.indices)
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _tensors_in(graph)
