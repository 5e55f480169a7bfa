"""Masks: masked_fill, masked_select, nonzero, where."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.indexing.indexing import index as index_by
from onnxport.ops.indexing.indexing import nonzero as positions


@converter("aten::masked_fill")
def masked_fill(g: Builder, self: Value, mask: Value, value: Operand) -> Value:
    """aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return emit.where(g, mask, value, self, dtype=self.dtype)


@converter("aten::_unsafe_masked_index")
def masked_index(g: Builder, self: Value, mask: Value, indices: list[Value | None], fill: Operand) -> Value:
    """aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor"""
    assert self.shape is not None
    sized = zip(indices, self.shape, strict=False)
    inside = [None if index is None else _limited(g, index, size) for index, size in sized]
    return emit.where(g, mask, index_by(g, self, inside), fill, dtype=self.dtype)


def _limited(g: Builder, index: Value, size: Size) -> Value:
    """An index that may be out of range, clamped as in torch."""
    if isinstance(size, int):
        return emit.clip(g, index, -size, size - 1)
    length = sizes.scalar(g, size)
    return emit.clip(g, g.cast(index, torch.int64), g.op("Neg", length), g.op("Sub", length, 1))


@converter("aten::where.self", "aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::where.Scalar")
def where(g: Builder, condition: Value, self: Operand, other: Operand) -> Value:
    """aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return emit.where(g, condition, self, other, dtype=g.outputs[0].dtype)


@converter("aten::where", "aten::nonzero_numpy")
def nonzero_numpy(g: Builder, self: Value | None = None, condition: Value | None = None) -> list[Value]:
    """aten::nonzero_numpy(Tensor self) -> Tensor[]"""
    x = self if self is not None else condition
    assert x is not None
    rows = positions(g, emit.reshape(g, x, [1]) if x.rank == 0 else x)
    if x.rank < 2:
        return [emit.squeeze(g, rows, [0])]
    return [g.op("Gather", rows, g.constant(axis, torch.int64), axis=0) for axis in range(x.rank)]


@converter("aten::nonzero", "aten::argwhere")
def nonzero(g: Builder, self: Value) -> Value:
    """aten::nonzero(Tensor self) -> Tensor"""
    if self.rank > 0:
        return g.op("Transpose", positions(g, self), perm=[1, 0])
    indices = g.op("Transpose", positions(g, emit.reshape(g, self, [1])), perm=[1, 0])
    return emit.slice_(g, indices, [0], [0], [1])


@converter("aten::count_nonzero")
def count_nonzero(g: Builder, self: Value, dim: int | Sequence[int] | None = None) -> Value:
    """aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor"""
    ones = g.cast(g.cast(self, torch.bool), torch.int64)
    axes = [dim] if isinstance(dim, int) else list(dim or ())
    if self.rank == 0:
        return ones
    return emit.reduce(g, "ReduceSum", ones, [axis % self.rank for axis in axes] or None, keepdims=False)


@converter("aten::masked_select")
def masked_select(g: Builder, self: Value, mask: Value) -> Value:
    """aten::masked_select(Tensor self, Tensor mask) -> Tensor"""
    x, condition = _alike(g, self, g.cast(mask, torch.bool))
    if x.rank == 0:
        x = emit.reshape(g, x, [1])
    return g.op("Compress", x, condition if condition.rank == 1 else g.op("Reshape", condition, [-1]))


def _alike(g: Builder, x: Value, mask: Value) -> tuple[Value, Value]:
    """Both broadcast to their common shape."""
    if x.shape == mask.shape:
        return x, mask
    assert x.shape is not None and mask.shape is not None
    rank = max(x.rank, mask.rank)
    padded = [(1,) * (rank - len(shape)) + shape for shape in (x.shape, mask.shape)]
    common = [left if right == 1 else right for left, right in zip(*padded, strict=True)]
    return emit.expand(g, x, common), emit.expand(g, mask, common)


@converter("aten::masked_scatter")
def masked_scatter(g: Builder, self: Value, mask: Value, source: Value) -> Value:
    """aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    x, condition = _alike(g, self, g.cast(mask, torch.bool))
    if x.rank == 0:
        return emit.where(g, condition, g.op("Gather", emit.reshape(g, source, [math.prod(source.shape or ())]), 0), x)
    rows = positions(g, condition)
    count = emit.slice_(g, g.typed(g.op("Shape", rows), torch.int64, (2,)), [1], [2], [0])
    flat = emit.reshape(g, source, [math.prod(source.shape or ())])
    taken = g.op("Slice", flat, [0], count, [0]) if g.opset >= 10 else flat
    return emit.scatter_nd(g, x, g.op("Transpose", rows, perm=[1, 0]), taken)
