"""onnx's checker over a model in pieces, without a copy of its weights."""

from __future__ import annotations

import onnx

from onnxport.errors import CheckerError
from onnxport.save.proto import SplitModel


def check_graph(split_model: SplitModel) -> None:
    """Checks the graph; large initializers are stood in for by inputs, of which the checker sees as much: the type."""
    proto = onnx.ModelProto.FromString(split_model.skeleton())
    declared = {value.name for value in proto.graph.input}
    for initializer in split_model.large:
        header = initializer.header
        if header.name not in declared:
            entry = proto.graph.input.add(name=header.name)
            entry.type.tensor_type.elem_type = header.data_type
            entry.type.tensor_type.shape.SetInParent()  # has to be there, and is not looked at
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        raise CheckerError(f"the exported graph is not valid ONNX; this is a fault of onnxport: {error}") from error
