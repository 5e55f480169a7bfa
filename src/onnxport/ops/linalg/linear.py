"""The linear layer."""

from __future__ import annotations

import math

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value


@converter("aten::linear")
def linear(g: Builder, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if input.rank == weight.rank == 2 and input.is_float and (bias is not None or g.opset >= 11):
        return g.op("Gemm", input, weight, bias, transB=1)
    if g.context.weights_stay and weight.rank == 2 and input.is_float and g.opset >= 11:
        return _of_rows(g, input, weight, bias)
    product = g.op("MatMul", input, emit.transpose(g, weight, range(weight.rank)[::-1]))
    return product if bias is None else g.op("Add", product, bias)


def _of_rows(g: Builder, input: Value, weight: Value, bias: Value | None) -> Value:
    """A Gemm of all rows, which takes the weight as it is: a MatMul would need it transposed."""
    assert input.shape is not None and weight.shape is not None and g.outputs[0].shape is not None
    rows = emit.reshape(g, input, (math.prod(input.shape[:-1]), weight.shape[1]))
    return emit.reshape(g, g.op("Gemm", rows, weight, bias, transB=1), g.outputs[0].shape)
