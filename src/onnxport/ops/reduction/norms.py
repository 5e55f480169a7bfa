"""Norms and distances."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxport.graph.sizes import Shape
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type
from onnxport.lower.inference.infer import broadcast
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.reduction import nan_order
from onnxport.ops.reduction.reduction import Dims, axes_of, reduce


def vector_norm(g: Builder, x: Value, p: float, dim: Dims, keepdim: bool) -> Value:
    """The p-norm of the elements along the dimensions."""
    if p == 2:
        return reduce(g, "ReduceL2", x, dim, keepdim) if x.rank else g.op("Abs", x)
    if p == 1:
        return reduce(g, "ReduceL1", x, dim, keepdim) if x.rank else g.op("Abs", x)
    if p == 0:
        nonzero = g.cast(g.cast(x, torch.bool), x.dtype)
        return reduce(g, "ReduceSum", nonzero, dim, keepdim)
    size = g.op("Abs", x)
    if math.isinf(p):
        return nan_order.extreme(g, size, axes_of(size, dim), keepdim, largest=p > 0)
    total = reduce(g, "ReduceSum", g.op("Pow", size, float(p)), dim, keepdim)
    return g.op("Pow", total, 1.0 / p)


@converter("aten::norm", "aten::linalg_vector_norm", "aten::frobenius_norm")
def norm(
    g: Builder,
    self: Value,
    p: float | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: Any = None,
    ord: float | None = None,
) -> Value:
    """aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor"""
    order = ord if ord is not None else 2 if p is None else p
    return vector_norm(g, g.cast(self, dtype or g.outputs[0].dtype), float(order), dim, keepdim)


@converter("aten::linalg__powsum")
def powsum(
    g: Builder, self: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """aten::linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""  # noqa: E501
    x = g.cast(self, dtype or g.outputs[0].dtype)
    return reduce(g, "ReduceSum", g.op("Pow", g.op("Abs", x), float(ord)), dim, keepdim)


@converter("aten::cosine_similarity")
def cosine_similarity(g: Builder, x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"""
    common = broadcast([x1.shape or (1,), x2.shape or (1,)])
    assert common is not None
    left, right = (_unit(g, x, common, dim % len(common), eps) for x in g.promoted(x1, x2))
    return emit.reduce(g, "ReduceSum", g.op("Mul", left, right), [dim % len(common)], keepdims=False)


def _unit(g: Builder, x: Value, common: Shape, axis: int, eps: float) -> Value:
    """The vectors divided by their norms, which are at least eps."""
    assert x.shape is not None
    own = axis - len(common) + x.rank
    if own < 0 or x.shape[own] != common[axis]:
        x, own = emit.expand(g, x, common), axis
    return g.op("Div", x, emit.clip(g, emit.reduce(g, "ReduceL2", x, [own], keepdims=True), eps, None))


@converter("aten::pairwise_distance")
def pairwise_distance(
    g: Builder, x1: Value, x2: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Value:
    """aten::pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor"""
    left, right = g.promoted(x1, x2)
    difference = g.op("Sub", left, right)
    difference = g.op("Add", g.cast(difference, float_type(difference)), eps)
    return vector_norm(g, difference, p, -1, keepdim)


@converter("aten::cdist", "aten::_cdist_forward")
def cdist(g: Builder, x1: Value, x2: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """aten::cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    left = emit.unsqueeze(g, x1, [x1.rank - 1])
    right = emit.unsqueeze(g, x2, [x2.rank - 2])
    return vector_norm(g, g.op("Sub", left, right), p, -1, keepdim=False)


@converter("aten::dist")
def dist(g: Builder, self: Value, other: Value, p: float = 2) -> Value:
    """aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    left, right = g.promoted(self, other)
    return vector_norm(g, g.op("Sub", left, right), float(p), None, keepdim=False)


@converter("aten::pdist", "aten::_pdist_forward")
def pdist(g: Builder, self: Value, p: float = 2) -> Value:
    """aten::_pdist_forward(Tensor self, float p=2) -> Tensor"""
    assert self.shape is not None
    count = self.shape[0]
    if not isinstance(count, int):
        g.unsupported("the distances of a dynamic number of points")
    first, second = torch.triu_indices(count, count, 1)
    left, right = (g.op("Gather", self, g.constant(rows), axis=0) for rows in (first, second))
    return vector_norm(g, g.op("Sub", left, right), float(p), 1, keepdim=False)
