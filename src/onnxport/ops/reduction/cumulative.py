"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value


@converter("aten::cumsum")
def cumsum(g: Builder, self: Value, dim: int, dtype: Any = None) -> Value:
    """aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = g.cast(self, g.outputs[0].dtype)
    if x.rank == 0:
        return x
    axis = dim % x.rank
    assert x.shape is not None
    size = x.shape[axis]
    if g.opset < 11 and isinstance(size, int) and x.is_float:
        return _by_triangle(g, x, axis, size)
    return emit.cumsum(g, x, axis)


def _by_triangle(g: Builder, x: Value, axis: int, size: int) -> Value:
    """A matrix product with ones on and above the diagonal."""
    swap = list(range(x.rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    ones = g.constant(torch.ones(size, size).triu(), x.dtype)
    product = g.op("MatMul", emit.transpose(g, x, swap), ones)
    return emit.transpose(g, product, swap)


@converter("aten::cumprod")
def cumprod(g: Builder, self: Value, dim: int, dtype: Any = None) -> Value:
    """aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    From opset 26 CumProd; before that each product is taken over its own copy of the axis, with ones past its end.
    """
    x = g.cast(self, g.outputs[0].dtype)
    if x.rank == 0:
        return x
    axis = dim % x.rank
    if g.runs("CumProd", x.dtype):
        return g.op("CumProd", x, g.constant(axis, torch.int64))
    assert x.shape is not None
    row = emit.unsqueeze(g, x, [axis])
    ones = [1] * (x.rank + 1)
    positions = emit.counting(g, x.shape[axis])
    last = emit.reshape(g, positions, [*ones[:axis], x.shape[axis], *ones[axis + 1 :]])
    own = emit.reshape(g, positions, [*ones[: axis + 1], x.shape[axis], *ones[axis + 2 :]])
    kept = emit.where(g, emit.less_or_equal(g, own, last), row, g.constant(1, x.dtype))
    return emit.reduce(g, "ReduceProd", kept, [axis + 1], keepdims=False)


@converter("aten::diff")
def diff(
    g: Builder, self: Value, n: int = 1, dim: int = -1, prepend: Value | None = None, append: Value | None = None
) -> Value:
    """aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"""
    if n == 0:
        return self
    axis = dim % self.rank
    parts = [part for part in (prepend, self, append) if part is not None]
    x = parts[0] if len(parts) == 1 else g.op("Concat", *g.promoted(*parts), axis=axis)
    for _ in range(n):
        later = emit.slice_(g, x, [1], [emit.INT64_MAX], [axis])
        earlier = emit.slice_(g, x, [0], [-1], [axis])
        x = g.op("Xor", later, earlier) if x.dtype == torch.bool else g.op("Sub", later, earlier)
    return x
