"""Sorting and selecting: sort, topk, argmax, kthvalue, unique."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import AnySize, Value
from onnxport.ops.reduction import nan_order


def _extreme_along(largest: bool) -> Converter:
    """The maximum or minimum along a dimension and the index of the first one."""

    def convert(g: Builder, self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        if self.rank == 0:
            return self, g.constant(0, torch.int64)
        return nan_order.extreme_and_place(g, self, dim % self.rank, keepdim, largest=largest)

    return convert


EXTREMES = entries(_extreme_along, {"aten::max.dim": True, "aten::min.dim": False})


def _arg(largest: bool) -> Converter:
    """argmax over one dimension, or over the flattened tensor."""

    def convert(g: Builder, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if self.rank == 0:
            return g.constant(0, torch.int64)
        if dim is not None:
            return nan_order.index_of_extreme(g, self, dim % self.rank, keepdim, largest=largest)
        found = nan_order.index_of_extreme(g, _flat(g, self), 0, keepdims=False, largest=largest)
        return emit.reshape(g, found, [1] * self.rank) if keepdim else found

    return convert


ARGS = entries(_arg, {"aten::argmax": True, "aten::argmin": False})


def _flat(g: Builder, x: Value) -> Value:
    assert x.shape is not None
    return emit.reshape(g, x, [product(x.shape)])


@converter("aten::topk")
def topk(
    g: Builder, self: Value, k: AnySize, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"""  # noqa: E501
    if self.rank == 0:
        return self, g.constant(0, torch.int64)
    return nan_order.topk(g, self, k, dim % self.rank, largest, sorted)


@converter("aten::sort", "aten::sort.stable")
def sort(
    g: Builder, self: Value, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    """aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)

    TopK over the whole dimension: equal elements are ordered by index, so it is stable.
    """  # noqa: E501
    if self.rank == 0:
        return self, g.constant(0, torch.int64)
    assert self.shape is not None
    axis = dim % self.rank
    return nan_order.topk(g, self, self.shape[axis], axis, largest=descending)


@converter("aten::argsort", "aten::argsort.stable")
def argsort(g: Builder, self: Value, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Value:
    """aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return sort(g, self, stable, dim, descending)[1]


@converter("aten::msort")
def msort(g: Builder, self: Value) -> Value:
    """aten::msort(Tensor self) -> Tensor"""
    return sort(g, self, dim=0)[0]


@converter("aten::kthvalue")
def kthvalue(g: Builder, self: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, g.constant(0, torch.int64)
    return _at_rank(g, self, k, dim % self.rank, keepdim)


def _at_rank(g: Builder, x: Value, k: AnySize, axis: int, keepdim: bool) -> tuple[Value, Value]:
    """The k-th smallest element: the last of the k smallest."""
    smallest = nan_order.topk(g, x, k, axis, largest=False)
    last = tuple(emit.slice_(g, found, [-1], [emit.INT64_MAX], [axis]) for found in smallest)
    values, indices = last if keepdim else tuple(emit.squeeze(g, found, [axis]) for found in last)
    return values, indices
