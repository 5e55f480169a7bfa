"""Matrix products as single Gemm nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxport.optimize.context import Context, only_use, operand, produced_by, rank, same_dim
from onnxport.optimize.passes.quantization.block_weights import is_of_blocks
from onnxport.optimize.rewrite import Rewrite, become, rewrite_nodes, set_inputs

# ONNX allows integers as well, for which ONNX Runtime has no Gemm kernel on CPU.
_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
_BIAS_OPTIONAL_SINCE = 11


class FuseGemm(ir.passes.InPlacePass):
    """Gathers a product of matrices with its transpositions and its bias.

    Rules:
        1. Add of a vector (or scalar) to a product of two matrices that nobody else reads: Gemm with bias.
        2. MatMul of two matrices one of which comes from a Transpose: Gemm with transA or transB (from opset 11, where
           the bias became optional).
        3. Gemm of a Transpose: transA or transB is flipped.

    A product with a weight that has a scale for each block stays as it is: runtimes have no kernel for another form.

    Only for float16, float32 and float64, and operands known to have rank 2. Runs before constants are folded, so that
    a linear layer's weight is stored as the user's module has it.

    Preserves: values up to the order of the runtime's summation; weights; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), _RULES))


def _add(context: Context, node: ir.Node) -> bool:
    left, right = node.inputs
    return _add_bias(context, node, left, right) or _add_bias(context, node, right, left)


def _add_bias(context: Context, node: ir.Node, product: ir.Value | None, bias: ir.Value | None) -> bool:
    inner = produced_by(product, "MatMul", "Gemm")
    if inner is None or product is None or not only_use(product) or inner.graph is not node.graph:
        return False
    if operand(inner, 2) is not None or not _is_matrix_product(inner) or is_of_blocks(inner.inputs[1]):
        return False
    if bias is None or not _is_bias_of(bias, _columns(inner)):
        return False
    become(context, node, "Gemm", [*inner.inputs[:2], bias], inner.attributes.values())
    return True


def _is_matrix_product(node: ir.Node) -> bool:
    left, right = node.inputs[:2]
    return rank(left) == rank(right) == 2 and left is not None and left.dtype in _TYPES


def _columns(node: ir.Node) -> int | ir.SymbolicDim:
    right = node.inputs[1]
    assert right is not None and right.shape is not None
    return right.shape[0 if node.attributes.get_int("transB", 0) else 1]


def _is_bias_of(value: ir.Value, columns: int | ir.SymbolicDim) -> bool:
    if value.shape is None or len(value.shape) > 1:
        return False
    return len(value.shape) == 0 or value.shape[0] == 1 or same_dim(value.shape[0], columns)


def _matmul(context: Context, node: ir.Node) -> bool:
    if context.opset < _BIAS_OPTIONAL_SINCE or not _is_matrix_product(node):
        return False
    if all(_transposed(value) is None for value in node.inputs):
        return False
    become(context, node, "Gemm", node.inputs)
    return _gemm(context, node)


def _gemm(context: Context, node: ir.Node) -> bool:
    modified = False
    for index, name in enumerate(("transA", "transB")):
        source = _transposed(node.inputs[index])
        if source is None:
            continue
        node.attributes[name] = ir.AttrInt64(name, 1 - node.attributes.get_int(name, 0))
        inputs = list(node.inputs)
        inputs[index] = source
        set_inputs(node, inputs)
        modified = True
    return modified


def _transposed(value: ir.Value | None) -> ir.Value | None:
    """The matrix that a value is the transpose of."""
    node = produced_by(value, "Transpose")
    if node is None or rank(value) != 2:
        return None
    return node.inputs[0] if tuple(node.attributes.get_ints("perm", (1, 0))) == (1, 0) else None


_RULES: Mapping[str, Sequence[Rewrite]] = {"Add": [_add], "MatMul": [_matmul], "Gemm": [_gemm]}
