"""A file cut at integers: they are given where they are read, and returned where they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import torch
from onnx import TensorProto

GIVEN = "{}:given"
# Integers of whole bytes, which torch has.
DTYPES: dict[int, torch.dtype] = {
    TensorProto.INT8: torch.int8,
    TensorProto.UINT8: torch.uint8,
    TensorProto.INT16: torch.int16,
    TensorProto.UINT16: torch.uint16,
}


def cut(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """A copy of a model whose values of these names are inputs (see `GIVEN`) and outputs, the latter in this order."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    types, cuts = _types(model.graph), frozenset(names)
    for node in made.graph.node:
        for place, name in enumerate(node.input):
            if name in cuts:
                node.input[place] = GIVEN.format(name)
    outputs = {output.name for output in made.graph.output}
    for name in names:
        made.graph.input.append(onnx.helper.make_tensor_value_info(GIVEN.format(name), types[name], None))
        if name not in outputs:
            made.graph.output.append(onnx.helper.make_tensor_value_info(name, types[name], None))
    return made


def cuttable(model: onnx.ModelProto) -> dict[str, torch.dtype]:
    """The values that can be given and returned: integers of whole bytes."""
    return {name: DTYPES[kind] for name, kind in _types(model.graph).items() if kind in DTYPES}


def floats_of(model: onnx.ModelProto, name: str) -> list[str]:
    """What DequantizeLinear makes of some integers; whole numbers that Round gives, themselves."""
    nodes = model.graph.node
    if name in rounds_of(model):
        return [name]
    return [node.output[0] for node in nodes if node.op_type == "DequantizeLinear" and node.input[0] == name]


def rounds_of(model: onnx.ModelProto) -> frozenset[str]:
    """What Round gives in a file."""
    return frozenset(node.output[0] for node in model.graph.node if node.op_type == "Round")


def _types(graph: onnx.GraphProto) -> Mapping[str, int]:
    """The element types of what QuantizeLinear gives, and of what movement, Clip and DequantizeLinear make of it.

    What Round gives is cut in single precision only.
    """
    stored = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            zero = node.input[2] if len(node.input) > 2 else ""
            asked = next((found.i for found in node.attribute if found.name == "output_dtype"), 0)
            types[node.output[0]] = stored.get(zero, asked or TensorProto.UINT8)
        elif node.op_type in ("DequantizeLinear", "Round"):
            types[node.output[0]] = TensorProto.FLOAT
        elif node.input and node.input[0] in types and types[node.input[0]] != TensorProto.FLOAT and node.output:
            types[node.output[0]] = types[node.input[0]]
    return types
