"""Weights that are computed from integers: as DequantizeLinear, of blocks in front of a MatMul, else of rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Array, Context, is_op, operand, produced_by, rank
from onnxport.optimize.evaluate import EVALUATORS, evaluate
from onnxport.optimize.passes.quantization.movement import MOVES
from onnxport.optimize.passes.quantization.parameters import parameters
from onnxport.optimize.rewrite import add_initializer, become, set_inputs
from onnxport.optimize.traversal import all_nodes

_FIRST_BLOCKS = 21
_FIRST_ROWS = 13
_KINDS = {
    ir.DataType.UINT4: (0, 15),
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT8: (-128, 127),
}
_MOVES = ("Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten")


class StoreBlocks(ir.passes.InPlacePass):
    """Writes a weight that is computed from integers as DequantizeLinear, for its product to be run on integers.

    Rules, for Gemm with transB and MatMul with a transposed weight [N, K], which
        1. is ``(integers - zero points) * scales`` for constants, in arithmetic of floats, with a scale for each block
           along K, or
        2. is a Reshape of DequantizeLinear with a scale for each row, each row a block along K:
    from opset 21 the weight is stored as [K, N] in the smallest type that holds its integers, DequantizeLinear has axis
    0 and the size of a block, and a bias is added by Add to a MatMul. Runtimes have kernels for this form and for no
    other.
        3. Arithmetic as in 1 with a scale for each of the N rows is DequantizeLinear with axis 0, from opset 13.
        4. Weights of 8 bits stay as they are where what they are multiplied by is quantized: ONNX Runtime 1.31 takes
           their blocks for channels there, and fails.
        5. Relu and Clip behind such a product are Max and Min. ONNX Runtime runs the product in float in front of
           a Relu or Clip that QuantizeLinear does not follow.

    Preserves: values up to the order of the runtime's summation; names of graph outputs. Not to be run on models for
    training.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model)
        modified = False
        for node in list(all_nodes(model.graph)) if context.opset >= _FIRST_ROWS else ():
            if node.graph is not None and is_op(node, "Gemm", "MatMul"):
                modified |= _store(context, node)
        for node in list(all_nodes(model.graph)) if context.opset >= _FIRST_BLOCKS else ():
            if is_op(node, "Relu", "Clip") and _is_product_of_blocks(node.inputs[0]):
                modified |= _clamp(context, node)
        return ir.passes.PassResult(model, modified=modified)


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """Integers [N, K], scales [N, blocks] and zero points of the same shape."""

    integers: Array
    scales: Array
    zeros: Array

    @property
    def size(self) -> int:
        return int(self.integers.shape[1] // self.scales.shape[1])


def is_of_blocks(value: ir.Value | None) -> bool:
    """Whether a value is a weight with a scale for each block."""
    node = produced_by(value, "DequantizeLinear")
    return node is not None and "block_size" in node.attributes


def _store(context: Context, node: ir.Node) -> bool:
    weight = _transposed_weight(node)
    found = None if weight is None else _blocks(context, weight)
    if weight is None or found is None or node.graph is None:
        return False
    if found.scales.shape[1] == 1:
        return _store_rows(context, node, weight, found)
    if context.opset < _FIRST_BLOCKS or (_smallest(context, found).bitwidth == 8 and _is_quantized(node.inputs[0])):
        return False
    name = context.names.claim(_name(node))
    made = ir.node(
        "DequantizeLinear",
        _constants(context, node.graph, name, found),
        {"axis": 0, "block_size": found.size},
        name=context.names.claim(f"{name}_float"),
    )
    result = made.outputs[0]
    result.name, result.type, result.shape = made.name, weight.type, ir.Shape(found.integers.T.shape)
    made.meta.update(node.meta)
    node.graph.insert_before(node, made)
    _multiply(context, node, result)
    return True


def _store_rows(context: Context, node: ir.Node, weight: ir.Value, found: _Blocks) -> bool:
    """A weight [N, K] with a scale for each row: the same, as DequantizeLinear."""
    producer, graph = weight.producer(), node.graph
    if producer is None or is_op(producer, "DequantizeLinear") or graph is None or producer.graph is not graph:
        return False
    kind = _smallest(context, found)
    name = context.names.claim(_name(node))
    parameters_of = {name: found.integers, f"{name}_zero_point": found.zeros[:, 0] if found.zeros.any() else None}
    stored = [
        add_initializer(graph, label, ir.Tensor(array.astype(kind.numpy()), dtype=kind))
        for label, array in parameters_of.items()
        if array is not None
    ]
    scale = add_initializer(graph, f"{name}_scale", ir.Tensor(np.ascontiguousarray(found.scales[:, 0])))
    become(context, producer, "DequantizeLinear", [stored[0], scale, *stored[1:]])
    producer.attributes["axis"] = ir.AttrInt64("axis", 0)
    return True


def _smallest(context: Context, found: _Blocks) -> ir.DataType:
    """The smallest type that holds the integers and the zero points."""
    low = min(int(found.integers.min()), int(found.zeros.min()))
    high = max(int(found.integers.max()), int(found.zeros.max()))
    known = {kind: limits for kind, limits in _KINDS.items() if context.opset >= _FIRST_BLOCKS or kind.bitwidth == 8}
    return next(kind for kind, (least, most) in known.items() if least <= low and high <= most)


def _transposed_weight(node: ir.Node) -> ir.Value | None:
    """The weight [N, K] of a product of matrices, or with one, that reads it transposed."""
    if is_op(node, "Gemm"):
        plain = node.attributes.get_float("alpha", 1.0) == 1 and node.attributes.get_float("beta", 1.0) == 1
        turned = node.attributes.get_int("transB", 0) and not node.attributes.get_int("transA", 0)
        weight = node.inputs[1] if plain and turned else None
    else:
        transpose = produced_by(node.inputs[1], "Transpose")
        weight = None if transpose is None else transpose.inputs[0]
    return weight if rank(weight) == 2 else None


def _blocks(context: Context, weight: ir.Value) -> _Blocks | None:
    """How a weight is computed from integers; None if it is not, or has no blocks along its rows."""
    assert weight.shape is not None
    rows, columns = weight.shape[0], weight.shape[1]
    value: ir.Value | None = weight
    while (moved := produced_by(value, *_MOVES)) is not None:
        value = moved.inputs[0]
    found = _dequantized(context, value) or _computed(context, value)
    if found is None or not isinstance(rows, int) or not isinstance(columns, int):
        return None
    integers, scales, zeros = found
    blocks = scales.size // rows
    # Each scale is for elements that lie together.
    if scales.shape != (*integers.shape[:-1], 1) or blocks < 1 or scales.size % rows or columns % blocks:
        return None
    zeros = np.broadcast_to(zeros, scales.shape)
    return _Blocks(integers.reshape(rows, columns), scales.reshape(rows, blocks), zeros.reshape(rows, blocks))


def _dequantized(context: Context, value: ir.Value | None) -> tuple[Array, Array, Array] | None:
    node = produced_by(value, "DequantizeLinear")
    found = None if node is None else parameters(context, node)
    integers = None if node is None else context.tensor(node.inputs[0])
    if found is None or integers is None or found.axis != 0 or len(integers.shape) != 2:
        return None
    return integers.numpy().astype(np.int32), found.scale[:, None], found.zero[:, None]


def _computed(context: Context, value: ir.Value | None) -> tuple[Array, Array, Array] | None:
    """The same in arithmetic: Mul of a Cast of integers, with a Sub between if there are zero points."""
    product = produced_by(value, "Mul")
    scales = None if product is None else _content(context, product.inputs[1])
    if product is None or scales is None or scales.dtype != np.float32:
        return None
    shifted = produced_by(product.inputs[0], "Sub")
    zeros = np.zeros(1) if shifted is None else _content(context, shifted.inputs[1])
    cast = produced_by(product.inputs[0] if shifted is None else shifted.inputs[0], "Cast")
    integers = None if cast is None else _content(context, cast.inputs[0])
    if integers is None or zeros is None or integers.dtype not in (np.int8, np.uint8, np.int32):
        return None
    if (zeros != np.rint(zeros)).any() or integers.ndim < 2:
        return None
    return integers.astype(np.int32), scales, zeros.astype(np.int32)


def _content(context: Context, value: ir.Value | None) -> Array | None:
    """What a constant holds, or what is computed from constants."""
    tensor = context.tensor(value)
    if tensor is not None:
        return tensor.numpy()
    node = None if value is None else value.producer()
    if node is None or node.domain != "" or node.op_type not in EVALUATORS or len(node.outputs) != 1:
        return None
    inputs = [None if given is None else _content(context, given) for given in node.inputs]
    known = all(content is not None or given is None for given, content in zip(node.inputs, inputs, strict=True))
    return evaluate(node, inputs) if known else None


def _constants(context: Context, graph: ir.Graph, name: str, found: _Blocks) -> list[ir.Value]:
    """The integers, scales and zero points as they are stored: [K, N], and blocks along K."""
    kind = _smallest(context, found)
    stored = {name: found.integers, f"{name}_zero_point": found.zeros if found.zeros.any() else None}
    values = [add_initializer(graph, f"{name}_scale", ir.Tensor(np.ascontiguousarray(found.scales.T)))]
    for label, array in stored.items():
        if array is not None:
            content = np.ascontiguousarray(array.T).astype(kind.numpy())
            values.append(add_initializer(graph, label, ir.Tensor(content, dtype=kind)))
    return [values[1], values[0], *values[2:]]


def _is_quantized(value: ir.Value | None) -> bool:
    """Whether a value is dequantized integers, or will be when quantizers are moved."""
    while (moved := produced_by(value, *MOVES)) is not None:
        value = moved.inputs[0]
    return produced_by(value, "DequantizeLinear") is not None


def _is_product_of_blocks(value: ir.Value | None) -> bool:
    """Whether a value is the product of floats and a weight of blocks, perhaps with a bias added."""
    added = produced_by(value, "Add")
    product = produced_by(value if added is None else added.inputs[0], "MatMul")
    return product is not None and is_of_blocks(product.inputs[1]) and not _is_quantized(product.inputs[0])


def _clamp(context: Context, node: ir.Node) -> bool:
    """Relu and Clip as Max and Min."""
    x, graph, output = node.inputs[0], node.graph, node.outputs[0]
    if x is None or x.dtype is None or graph is None:
        return False
    low, high = operand(node, 1), operand(node, 2)
    if is_op(node, "Relu"):
        zero = ir.Tensor(np.zeros((), x.dtype.numpy()), dtype=x.dtype)
        low = add_initializer(graph, context.names.claim(f"{node.name}_zero"), zero)
    if low is not None and high is not None:
        largest = ir.node("Max", [x, low], name=context.names.claim(f"{node.name}_low"))
        x = largest.outputs[0]
        x.name, x.type, x.shape = largest.name, output.type, output.shape
        largest.meta.update(node.meta)
        graph.insert_before(node, largest)
        low = None
    if low is None and high is None:
        return False
    become(context, node, "Max" if high is None else "Min", [x, low if high is None else high])
    return True


def _name(node: ir.Node) -> str:
    """A name for the weight, after the module that the product is computed in."""
    scope = (node.name or "").rpartition("/")[0]
    return f"{scope}.weight" if scope else "weight"


def _multiply(context: Context, node: ir.Node, weight: ir.Value) -> None:
    """Let a node be MatMul with this weight, and Add of a bias."""
    bias, x = operand(node, 2), node.inputs[0]
    if bias is None:
        if is_op(node, "Gemm"):
            become(context, node, "MatMul", [x, weight])
        else:
            set_inputs(node, [x, weight])
        return
    product = ir.node("MatMul", [x, weight], name=context.names.claim(f"{node.name}_product"))
    made, output = product.outputs[0], node.outputs[0]
    made.name, made.type, made.shape = product.name, output.type, output.shape
    product.meta.update(node.meta)
    assert node.graph is not None
    node.graph.insert_before(node, product)
    become(context, node, "Add", [made, bias])
