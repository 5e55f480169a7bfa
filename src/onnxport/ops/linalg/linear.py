"""The linear layer."""

from __future__ import annotations

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value


@converter("aten::linear")
def linear(g: Builder, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if input.rank == weight.rank == 2 and input.is_float and (bias is not None or g.opset >= 11):
        return g.op("Gemm", input, weight, bias, transB=1)
    product = g.op("MatMul", input, emit.transpose(g, weight, range(weight.rank)[::-1]))
    return product if bias is None else g.op("Add", product, bias)
