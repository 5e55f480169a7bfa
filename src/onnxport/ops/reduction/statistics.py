"""Covariances."""

from __future__ import annotations

from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.registry import converter
from onnxport.lower.value import Value


@converter("aten::cov")
def cov(
    g: Builder, self: Value, correction: int = 1, fweights: Value | None = None, aweights: Value | None = None
) -> Value:
    """aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor"""
    x = g.cast(self, wide(g.outputs[0].dtype))
    if self.rank < 2:
        x = emit.unsqueeze(g, x, list(range(2 - self.rank)))
    weights = [g.cast(weight, x.dtype) for weight in (fweights, aweights) if weight is not None]
    if not weights:
        centred = g.op("Sub", x, emit.reduce(g, "ReduceMean", x, [1], keepdims=True))
        assert x.shape is not None
        count = g.op("Sub", g.cast(sizes.scalar(g, x.shape[1]), x.dtype), correction)
        return _divided(g, self, g.op("MatMul", centred, emit.transpose(g, centred, [1, 0])), count)
    weight = weights[0] if len(weights) == 1 else g.op("Mul", *weights)
    total = emit.reduce(g, "ReduceSum", weight, None, keepdims=False)
    sums = emit.reduce(g, "ReduceSum", g.op("Mul", x, weight), [1], keepdims=True)
    centred = g.op("Sub", x, g.op("Div", sums, total))
    products = g.op("MatMul", g.op("Mul", centred, weight), emit.transpose(g, centred, [1, 0]))
    if aweights is None:
        return _divided(g, self, products, g.op("Sub", total, correction))
    squares = emit.reduce(g, "ReduceSum", g.op("Mul", weight, weights[-1]), None, keepdims=False)
    lost = g.op("Mul", g.op("Div", squares, total), correction)
    return _divided(g, self, products, g.op("Sub", total, lost))


def _divided(g: Builder, source: Value, products: Value, count: Value) -> Value:
    """Divide by the degrees of freedom, which are at least 0; a single variable has a 0-dim result."""
    result = g.op("Div", products, emit.clip(g, count, 0, None))
    return emit.squeeze(g, result, [0, 1] if source.rank < 2 or not g.outputs[0].shape else [])
