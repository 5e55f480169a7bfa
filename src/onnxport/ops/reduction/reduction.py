"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from onnxport.graph.sizes import Size, SizeExpr, product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Value
from onnxport.ops.reduction import nan_order

Dims = Sequence[int] | int | None


def axes_of(x: Value, dim: Dims) -> list[int] | None:
    """The axes to reduce, counted from the front; None for all of them. A 0-dim tensor has none to reduce."""
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if x.rank == 0:
        return []
    if not dims or len(dims) == x.rank:
        return None
    return sorted(axis % x.rank for axis in dims)


def reduced_size(x: Value, dim: Dims) -> Size:
    """The number of elements that are reduced to one."""
    assert x.shape is not None
    axes = axes_of(x, dim)
    return product(x.shape if axes is None else (x.shape[axis] for axis in axes))


def reduce(g: Builder, op: str, x: Value, dim: Dims, keepdim: bool) -> Value:
    if op == "ReduceMean" and may_be_empty(g, x, dim):
        return _mean_or_nan(g, x, dim, keepdim)
    result = emit.reduce(g, op, x, axes_of(x, dim), keepdim)
    if op == "ReduceMean" and reduced_size(x, dim) == 0:
        return emit.filled(g, result.shape or (), math.nan, x.dtype)
    return result


def may_be_empty(g: Builder, x: Value, dim: Dims) -> bool:
    """Whether the number of reduced elements is data-dependent, as with a mask: it may be 0."""
    assert x.shape is not None
    axes = range(x.rank) if (reduced := axes_of(x, dim)) is None else reduced
    return any(isinstance(size := x.shape[axis], SizeExpr) and size in g.context.counted for axis in axes)


def _mean_or_nan(g: Builder, x: Value, dim: Dims, keepdim: bool) -> Value:
    """A mean as sum by count: ONNX does not define ReduceMean of an empty tensor, and the runtime returns 0."""
    wide = g.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    count = g.op("Size", x) if axes_of(x, dim) is None else sizes.scalar(g, reduced_size(x, dim))
    total = emit.reduce(g, "ReduceSum", wide, axes_of(x, dim), keepdim)
    return g.cast(g.op("Div", total, g.cast(count, wide.dtype)), x.dtype)


def _plain(op: str) -> Converter:
    """The input is cast to the result's dtype first, as torch does: sums of bool and integers are int64."""

    def convert(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Value:
        return reduce(g, op, g.cast(self, g.outputs[0].dtype), dim, keepdim)

    return convert


PLAIN = entries(_plain, {"aten::sum": "ReduceSum", "aten::mean": "ReduceMean", "aten::prod": "ReduceProd"})


@converter("aten::amax", "aten::max")
def amax(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return nan_order.extreme(g, self, axes_of(self, dim), keepdim, largest=True)


@converter("aten::amin", "aten::min")
def amin(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return nan_order.extreme(g, self, axes_of(self, dim), keepdim, largest=False)


@converter("aten::aminmax")
def aminmax(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False) -> tuple[Value, Value]:
    """aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    return amin(g, self, dim, keepdim), amax(g, self, dim, keepdim)


def _truth(op: str) -> Converter:
    """any as a sum and all as a product of zeros and ones, which is right for empty tensors, too."""

    def convert(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        truth = g.cast(g.cast(self, torch.bool), torch.int32)
        return g.cast(reduce(g, op, truth, dim, keepdim), torch.bool)

    return convert


TRUTH = entries(_truth, {"aten::any": "ReduceSum", "aten::all": "ReduceProd"})


@converter("aten::logsumexp", "aten::special_logsumexp")
def logsumexp(g: Builder, self: Value, dim: Dims, keepdim: bool = False) -> Value:
    """aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return reduce(g, "ReduceLogSumExp", g.cast(self, g.outputs[0].dtype), dim, keepdim)


@converter("aten::nansum")
def nansum(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Value:
    """aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    numbers = emit.where(g, g.op("IsNaN", self), 0.0, self, dtype=self.dtype) if self.is_float else self
    return reduce(g, "ReduceSum", g.cast(numbers, g.outputs[0].dtype), dim, keepdim)


@converter("aten::nanmean")
def nanmean(g: Builder, self: Value, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> Value:
    """aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    count = reduce(g, "ReduceSum", g.cast(g.op("Not", g.op("IsNaN", self)), self.dtype), dim, keepdim)
    return g.op("Div", nansum(g, self, dim, keepdim), count)


def variance(g: Builder, x: Value, dim: Dims, correction: float, keepdim: bool) -> tuple[Value, Value]:
    """The variance and, with kept dimensions, the mean. torch refuses integers."""
    mean = reduce(g, "ReduceMean", x, dim, keepdim=True)
    centred = g.op("Sub", x, mean)
    if correction == 0:
        return reduce(g, "ReduceMean", g.op("Mul", centred, centred), dim, keepdim), mean
    squares = reduce(g, "ReduceSumSquare", centred, dim, keepdim)
    if x.rank == 0:
        squares = g.op("Mul", centred, centred)
    return g.op("Div", squares, _degrees_of_freedom(g, x, dim, correction)), mean


def _degrees_of_freedom(g: Builder, x: Value, dim: Dims, correction: float) -> Value:
    count = reduced_size(x, dim)
    if isinstance(count, int):
        return g.constant(max(count - correction, 0.0), x.dtype)
    degrees = g.op("Sub", g.cast(sizes.scalar(g, count), x.dtype), correction)
    may_be_negative = correction > 1 or may_be_empty(g, x, dim)
    return emit.maximum(g, degrees, g.constant(0.0, x.dtype)) if may_be_negative else degrees


def _variance(finish: Callable[[Builder, Value], Value], with_mean: bool) -> Converter:
    def convert(
        g: Builder,
        self: Value,
        dim: Dims = None,
        unbiased: bool = True,
        keepdim: bool = False,
        correction: float | None = None,
    ) -> Value | tuple[Value, Value]:
        amount = float(unbiased) if correction is None else float(correction)
        result, mean = variance(g, self, dim, amount, keepdim)
        result = finish(g, result)
        if not with_mean:
            return result
        return result, mean if keepdim else reduce(g, "ReduceMean", self, dim, keepdim=False)

    return convert


def _as_is(g: Builder, x: Value) -> Value:
    return x


def _root(g: Builder, x: Value) -> Value:
    return g.op("Sqrt", x)


VARIANCE = entries(
    _variance,
    {
        "aten::var": (_as_is, False),
        "aten::std": (_root, False),
        "aten::var_mean": (_as_is, True),
        "aten::std_mean": (_root, True),
    },
)
