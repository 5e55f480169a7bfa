"""gather, and scatter with its reductions."""

from __future__ import annotations

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.reduction.nan_order import is_exact

REDUCTIONS = {
    "add": "add", "sum": "add", "mean": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


@converter("aten::gather")
def gather(g: Builder, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    x, indices = _vector(g, self), _vector(g, index)
    if 0 in (index.shape or ()):  # of any rank
        return emit.filled(g, index.shape or (), 0, x.dtype)
    return emit.reshape(g, emit.gather_elements(g, x, indices, dim % x.rank), index.shape or ())


def _vector(g: Builder, value: Value) -> Value:
    """0-dim tensors as vectors of one element."""
    return emit.reshape(g, value, [1]) if value.shape == () else value


@converter("aten::scatter", "aten::scatter_add", "aten::scatter_reduce.two")
def scatter(
    g: Builder,
    self: Value,
    dim: int,
    index: Value,
    src: Value | None = None,
    value: Operand = 0,
    reduce: str | None = None,
    include_self: bool = True,
) -> Value:
    """aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"""  # noqa: E501
    assert index.shape is not None and g.origin is not None
    if 0 in index.shape:  # of any rank and dtype
        return self
    x, indices = _vector(g, self), _vector(g, index)
    axis = dim % x.rank
    if src is None:
        updates = emit.expand(g, g.cast(value, x.dtype), indices.shape or ())
    else:
        updates = _cut(g, _vector(g, g.cast(src, x.dtype)), indices)
    how = "sum" if g.origin.op == "aten::scatter_add" else reduce
    if how is None:
        scattered = emit.scatter_elements(g, x, indices, updates, axis)
    else:
        scattered = reduced(g, x, axis, indices, updates, how, include_self)
    return emit.reshape(g, scattered, self.shape or ())


def _cut(g: Builder, source: Value, index: Value) -> Value:
    """The part of the source that has the shape of the index."""
    assert source.shape is not None and index.shape is not None
    axes = [axis for axis in range(source.rank) if source.shape[axis] != index.shape[axis]]
    if not axes:
        return source
    return emit.slice_(g, source, [0] * len(axes), [index.shape[axis] for axis in axes], axes)


def reduced(g: Builder, x: Value, axis: int, index: Value, source: Value, reduce: str, include_self: bool) -> Value:
    """ScatterElements with a reduction. Without ``include_self`` the old content is replaced by the neutral element."""
    reduction = REDUCTIONS[reduce]
    if x.dtype == torch.bool:
        return _reduced_bool(g, x, axis, index, source, reduction, include_self)
    base = x
    if not include_self:
        neutral = emit.expand(g, g.constant(_neutral(reduction, x.dtype), x.dtype), index.shape or ())
        base = emit.scatter_elements(g, x, index, neutral, axis)
    result = emit.scatter_elements(g, base, index, source, axis, reduction)
    if reduction in ("max", "min") and any(is_exact(g, value) for value in (base, source)):
        # A sum of absolute values is NaN exactly where one of them is.
        total = emit.scatter_elements(g, g.op("Abs", base), index, g.op("Abs", source), axis, "add")
        return g.op("Where", g.op("IsNaN", total), total, result)
    if reduce != "mean":
        return result
    ones = emit.expand(g, g.constant(1, x.dtype), index.shape or ())
    counts = emit.scatter_elements(g, emit.filled(g, x.shape or (), 1, x.dtype), index, ones, axis, "add")
    if not include_self:
        counts = _counted_without_self(g, x, axis, index, ones)
    return _divided(g, result, counts)


def _counted_without_self(g: Builder, x: Value, axis: int, index: Value, ones: Value) -> Value:
    counts = emit.scatter_elements(g, emit.filled(g, x.shape or (), 0, x.dtype), index, ones, axis, "add")
    return g.op("Max", counts, 1)


def _divided(g: Builder, total: Value, counts: Value) -> Value:
    """Division that rounds down for integers."""
    if total.is_float:
        return g.op("Div", total, counts)
    remainder = g.op("Mod", total, counts)
    return g.op("Div", g.op("Sub", total, remainder), counts)


def _reduced_bool(
    g: Builder, x: Value, axis: int, index: Value, source: Value, reduction: str, include_self: bool
) -> Value:
    """Bools as 0 and 1: their maximum is "or", their minimum "and"."""
    same = {"add": "amax", "max": "amax", "mul": "amin", "min": "amin"}[reduction]
    wide = [g.cast(value, torch.int32) for value in (x, source)]
    return g.cast(reduced(g, wide[0], axis, index, wide[1], same, include_self), torch.bool)


def _neutral(reduction: str, dtype: torch.dtype) -> float | int:
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    if dtype.is_floating_point:
        return float("-inf") if reduction == "max" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if reduction == "max" else limits.max


@converter("aten::index_reduce")
def index_reduce(
    g: Builder, self: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    """aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor"""  # noqa: E501
    x, values, indices = _vector(g, self), _vector(g, source), _vector(g, index)
    axis = dim % x.rank
    column = emit.unsqueeze(g, g.cast(indices, torch.int64), [i for i in range(x.rank) if i != axis])
    spread = emit.expand(g, column, values.shape or ())
    return emit.reshape(g, reduced(g, x, axis, spread, values, reduce, include_self), self.shape or ())
