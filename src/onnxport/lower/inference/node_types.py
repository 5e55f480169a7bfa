"""The output types of any standard ONNX operator, by onnx's own inference.

Users may write nodes of any operator. A model with dynamic axes is captured at several points: inference runs at each
point, and a dimension has the inferred sizes as its values.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir
import torch

from onnxport.graph.sizes import Shape, size, values
from onnxport.lower.dtypes import ONNX_TYPES
from onnxport.lower.inference.infer import ELEMENTWISE, SAME_AS_FIRST, dtype_of, shape_of
from onnxport.lower.inference.node_contents import Contents
from onnxport.lower.value import Value

DTYPES = {int(kind): dtype for dtype, kind in ONNX_TYPES.items()}

# Operators for which our own rules are exact, and much faster.
BY_OWN_RULES = (ELEMENTWISE | SAME_AS_FIRST | {"Transpose", "MatMul"}) - {"Cast", "Dropout", "Bernoulli", "Softmax"}

OutputType = tuple["torch.dtype | None", "Shape | None"]


def output_types(
    node: ir.Node, inputs: Sequence[Value | None], contents: Contents, opset: int, captures: int
) -> list[OutputType]:
    """The dtype and shape of each output; None for what does not follow from the inputs."""
    if node.op_type in BY_OWN_RULES and len(node.outputs) == 1 and not any(v.guessed for v in inputs if v):
        raw = {name: attribute.value for name, attribute in node.attributes.items()}
        shape = shape_of(node.op_type, inputs, raw)
        if shape is not None:
            return [(dtype_of(node.op_type, inputs, raw), shape)]
    found = [_infer(node, inputs, contents, opset, capture, captures) for capture in range(captures)]
    return [_joined(column) for column in zip(*found, strict=True)]


def _joined(column: Sequence[OutputType]) -> OutputType:
    dtype = column[0][0]
    shapes = [shape for _, shape in column if shape is not None]
    if len(shapes) < len(column) or len({len(shape) for shape in shapes}) > 1:
        return dtype, None
    sizes = [[d for d in dims if isinstance(d, int)] for dims in zip(*shapes, strict=True)]
    return dtype, tuple(size(dims) for dims in sizes)


def _infer(
    node: ir.Node, inputs: Sequence[Value | None], contents: Contents, opset: int, capture: int, captures: int
) -> list[OutputType]:
    schema = onnx.defs.get_schema(node.op_type, opset)
    proto = _proto(node)
    present = [(name, value) for name, value in zip(proto.input, inputs, strict=True) if value is not None]
    types = {name: _type(value, capture, captures) for name, value in present}
    found_data = {name: content for name, value in present if (content := contents.at(value, capture)) is not None}
    data = {name: onnx.numpy_helper.from_array(content) for name, content in found_data.items()}
    imports = [onnx.helper.make_operatorsetid("", opset)]
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=imports)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        # Inference also refuses guessed or unknown inputs; the runtime refuses nodes that are really wrong.
        return [(None, None)] * len(proto.output)
    return [_read(found.get(name)) for name in proto.output]


def _proto(node: ir.Node) -> onnx.NodeProto:
    """The node alone: serialising it as part of a graph takes several times as long."""
    proto = onnx.NodeProto(op_type=node.op_type)
    proto.input.extend("" if value is None else value.name or "" for value in node.inputs)
    proto.output.extend(value.name or "" for value in node.outputs)
    proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    return proto


def _type(value: Value, capture: int, captures: int) -> onnx.TypeProto:
    if value.guessed:
        return onnx.TypeProto()
    shape = None if value.shape is None else [values(d, captures)[capture] for d in value.shape]
    return onnx.helper.make_tensor_type_proto(int(ONNX_TYPES[value.dtype]), shape)


def _read(found: onnx.TypeProto | None) -> OutputType:
    if found is None or not found.HasField("tensor_type"):
        return None, None
    dtype = DTYPES.get(found.tensor_type.elem_type)
    if not found.tensor_type.HasField("shape"):
        return dtype, None
    dims = found.tensor_type.shape.dim
    known = tuple(d.dim_value for d in dims if d.HasField("dim_value"))
    return dtype, known if len(known) == len(dims) else None
