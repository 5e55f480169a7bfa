"""Biases of quantized layers that add nothing."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.context import Context, is_op, operand, produced_by
from onnxport.optimize.rewrite import set_inputs
from onnxport.optimize.traversal import all_nodes

_LAYERS = ("Conv", "ConvTranspose", "Gemm")
_BIAS_OPTIONAL_SINCE = 11


class DropZeroBiases(ir.passes.InPlacePass):
    """Removes a bias that is DequantizeLinear of zeros from Conv, ConvTranspose and Gemm.

    Preserves: every value; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model)
        modified = False
        for node in all_nodes(model.graph):
            if is_op(node, *_LAYERS) and _adds_zeros(context, operand(node, 2)):
                if is_op(node, "Gemm") and context.opset < _BIAS_OPTIONAL_SINCE:
                    continue
                set_inputs(node, node.inputs[:2])
                modified = True
        return ir.passes.PassResult(model, modified=modified)


def _adds_zeros(context: Context, bias: ir.Value | None) -> bool:
    node = produced_by(bias, "DequantizeLinear")
    tensor = None if node is None else context.tensor(node.inputs[0])
    if node is None or tensor is None or tensor.dtype != ir.DataType.INT32 or operand(node, 2) is not None:
        return False
    return not tensor.numpy().any()
