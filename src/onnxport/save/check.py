"""Runs onnx's checker on a model without a copy of its weights."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from onnxport.errors import CheckerError, NotYetSupportedError
from onnxport.save.proto import SplitModel

UNKNOWN = "unknown"


def check_graph(split_model: SplitModel) -> None:
    """Checks the graph; large initializers are replaced by inputs, for which the checker sees the same: the type."""
    proto = _read(split_model.skeleton())
    declared = {value.name for value in proto.graph.input}
    stored = [initializer for initializer in proto.graph.initializer if initializer.external_data]
    for header in (*(initializer.header for initializer in split_model.large), *stored):
        if header.name not in declared:
            entry = proto.graph.input.add(name=header.name)
            entry.type.tensor_type.elem_type = header.data_type
            entry.type.tensor_type.shape.SetInParent()  # has to be there, and is not looked at
    for header in stored:
        proto.graph.initializer.remove(header)
    _set_unknown_apart(proto)
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        raise CheckerError(
            f"the exported graph is not valid ONNX, which is a bug in onnxport; please report it: {error}"
        ) from error


def _read(data: bytes) -> onnx.ModelProto:
    try:
        found: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise NotYetSupportedError(
            "the branches and loops of this model are nested too deeply: protobuf does not read such a file "
            f"({error}). Write conditions and loops one after another, or with tensor operations (torch.where)."
        ) from error
    return found


def _set_unknown_apart(proto: onnx.ModelProto) -> None:
    """Give operators without a domain that ONNX does not have a domain, so that the checker accepts them."""
    unknown = [node for node in _nodes(proto.graph) if node.domain == "" and not onnx.defs.has(node.op_type, "")]
    for node in unknown:
        node.domain = UNKNOWN
    if unknown:
        proto.opset_import.add(domain=UNKNOWN, version=1)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
