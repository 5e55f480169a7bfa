"""Counting: bincount, histc, histogram and histogramdd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Operand, Value

FIRST_SCATTER_ADD = 16


def counted(g: Builder, indices: Value, count: int, weights: Value | None, dtype: torch.dtype) -> Value:
    """The number of occurrences of each index below ``count``, or the sum of their weights."""
    assert indices.shape is not None
    if g.opset >= FIRST_SCATTER_ADD:
        values = weights if weights is not None else emit.filled(g, indices.shape, 1, dtype)
        return emit.scatter_elements(g, emit.filled(g, [count], 0, dtype), indices, values, 0, "add")
    hits = g.cast(g.op("Equal", emit.unsqueeze(g, indices, [1]), g.constant(torch.arange(count))), dtype)
    if weights is not None:
        hits = g.op("Mul", hits, emit.unsqueeze(g, weights, [1]))
    return emit.reduce(g, "ReduceSum", hits, [0], keepdims=False)


def _flat(g: Builder, x: Value) -> Value:
    assert x.shape is not None
    return emit.reshape(g, x, [product(x.shape)])


@converter("aten::bincount")
def bincount(g: Builder, self: Value, weights: Value | None = None, minlength: AnySize = 0) -> Value:
    """aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    dtype = g.outputs[0].dtype
    shortest = sizes.vector(g, [minlength])
    if self.shape == (0,):
        return g.op("ConstantOfShape", shortest, value=torch.zeros(1, dtype=dtype))
    indices = g.cast(self, torch.int64)
    # The last index of the shortest result keeps the maximum defined where there is nothing to count.
    before = g.op("Concat", g.op("Sub", shortest, 1), indices, axis=0)
    count = g.op("Add", g.op("ReduceMax", before, keepdims=1), 1)
    zeros = g.op("ConstantOfShape", count, value=torch.zeros(1, dtype=dtype))
    values = g.cast(weights, dtype) if weights is not None else emit.filled(g, self.shape or (), 1, dtype)
    return emit.scatter_elements(g, zeros, indices, values, 0, "add")


@converter("aten::histc")
def histc(g: Builder, self: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    x = _flat(g, self)
    if x.shape == (0,):
        return emit.filled(g, [bins], 0, x.dtype)
    dtype, x = x.dtype, g.cast(x, wide(x.dtype))
    low, high = (_rounded(g, end, dtype) for end in _bounds(g, x, None if min == max else (min, max), 1.0))
    width = _rounded(g, g.op("Sub", high, low), dtype)
    above, many = _rounded(g, g.op("Sub", x, low), dtype), _rounded(g, g.constant(bins, x.dtype), dtype)
    scaled = _rounded(g, g.op("Mul", above, many), dtype)
    share = _rounded(g, g.op("Div", scaled, width), dtype)
    inside = g.op("And", emit.greater_or_equal(g, x, low), emit.less_or_equal(g, x, high))
    # The upper bound belongs to the last bin; elements outside go to an additional bin after it.
    last = g.op("Min", g.cast(emit.where(g, inside, share, 0, x.dtype), torch.int64), bins - 1)
    index = emit.where(g, inside, last, bins, torch.int64)
    return emit.slice_(g, counted(g, index, bins + 1, None, dtype), [0], [bins], [0])


def _rounded(g: Builder, step: Value, dtype: torch.dtype) -> Value:
    """A step in single precision, rounded to half precision as in torch: the runtime would round only the last one."""
    return g.cast(g.cast(step, dtype), step.dtype)


def _bounds(g: Builder, x: Value, bounds: Sequence[float] | None, widening: float) -> tuple[Value, Value]:
    """The given bounds, else those of the elements; widened if they are equal."""
    if bounds is not None:
        low, high = bounds
        if low == high:
            low, high = low - widening, high + widening
        return g.constant(low, x.dtype), g.constant(high, x.dtype)
    ends = [g.op(op, x, keepdims=0) for op in ("ReduceMin", "ReduceMax")]
    widened_by = emit.where(g, emit.equal(g, *ends), widening, 0.0, x.dtype)
    return g.op("Sub", ends[0], widened_by), g.op("Add", ends[1], widened_by)


@converter("aten::histogram")
def histogram(
    g: Builder,
    self: Value,
    bins: Value | int = 100,
    weight: Value | None = None,
    density: bool = False,
    range: list[float] | None = None,
) -> tuple[Value, Value]:
    """aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)"""  # noqa: E501
    x = _flat(g, self)
    edges = bins if isinstance(bins, Value) else _edges(g, x, bins, range)
    return _histogram(g, [x], [edges], weight, density), edges


def _edges(g: Builder, x: Value, bins: int, bounds: Sequence[float] | None) -> Value:
    """The edges of bins of equal width."""
    if bounds is None and x.shape == (0,):
        bounds = (0.0, 1.0)
    if bounds is not None:
        low, high = (bounds[0] - 0.5, bounds[1] + 0.5) if bounds[0] == bounds[1] else bounds
        return g.constant(torch.linspace(low, high, bins + 1, dtype=x.dtype))
    first, last = _bounds(g, x, None, 0.5)
    steps = g.constant(torch.arange(bins + 1), x.dtype)
    step = g.op("Div", g.op("Sub", last, first), g.constant(bins, x.dtype))
    # Computed from both ends, so that the last edge is exact.
    rising = g.op("Add", first, g.op("Mul", steps, step))
    falling = g.op("Sub", last, g.op("Mul", g.constant(bins - torch.arange(bins + 1), x.dtype), step))
    return g.op("Where", g.constant(torch.arange(bins + 1) < (bins + 1) // 2), rising, falling)


def _histogram(g: Builder, axes: list[Value], edges: list[Value], weight: Value | None, density: bool) -> Value:
    """The number of points, or the sum of their weights, in each bin."""
    counts = [_bins(edge) for edge in edges]
    total = math.prod(counts)
    dtype = axes[0].dtype
    index: Value | None = None
    inside: Value | None = None
    for x, edge, count in zip(axes, edges, counts, strict=True):
        first, last = (g.op("Gather", edge, g.constant(at, torch.int64)) for at in (0, count))
        within = g.op("And", emit.greater_or_equal(g, x, first), emit.less_or_equal(g, x, last))
        inner = emit.slice_(g, edge, [1], [count], [0])
        passed = g.cast(emit.greater_or_equal(g, emit.unsqueeze(g, x, [1]), inner), torch.int64)
        own = emit.reduce(g, "ReduceSum", passed, [1], keepdims=False)
        index = own if index is None else g.op("Add", g.op("Mul", index, count), own)
        inside = within if inside is None else g.op("And", inside, within)
    assert index is not None and inside is not None
    outside = emit.where(g, inside, index, total, torch.int64)
    flat = None if weight is None else _flat(g, g.cast(weight, dtype))
    hits = emit.slice_(g, counted(g, outside, total + 1, flat, dtype), [0], [total], [0])
    result = emit.reshape(g, g.typed(hits, dtype, (total,)), counts)
    return _dense(g, result, edges) if density else result


def _dense(g: Builder, counts: Value, edges: list[Value]) -> Value:
    """The counts divided by their sum and by the size of the bins."""
    counts = g.op("Div", counts, emit.reduce(g, "ReduceSum", counts, None, keepdims=False))
    for axis, edge in enumerate(edges):
        widths = g.op(
            "Sub", *(emit.slice_(g, edge, [start], [end], [0]) for start, end in ((1, emit.INT64_MAX), (0, -1)))
        )
        counts = g.op("Div", counts, emit.unsqueeze(g, widths, range(1, len(edges) - axis)))
    return counts


def _bins(edges: Value) -> int:
    assert edges.shape is not None and isinstance(edges.shape[0], int)
    return edges.shape[0] - 1


@converter("aten::histogramdd")
def histogramdd(
    g: Builder,
    self: Value,
    bins: Any,
    range: list[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Operand]:
    """aten::histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)"""  # noqa: E501
    assert self.shape is not None
    axes = _columns(g, self)
    edges = _grid(g, axes, bins, range)
    hist = _histogram(g, axes, edges, weight, density)
    return [hist, *edges] if len(g.outputs) > 1 and g.outputs[1].is_tensor else [hist, hist]


@converter("aten::_histogramdd_from_bin_cts", "aten::_histogramdd_from_bin_tensors")
def histogramdd_alone(
    g: Builder,
    self: Value,
    bins: Any,
    range: list[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> Value:
    """aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor"""  # noqa: E501
    axes = _columns(g, self)
    return _histogram(g, axes, _grid(g, axes, bins, range), weight, density)


@converter("aten::_histogramdd_bin_edges")
def histogramdd_edges(
    g: Builder,
    self: Value,
    bins: list[int],
    range: list[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Value]:
    """aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]"""  # noqa: E501
    return _grid(g, _columns(g, self), bins, range)


def _columns(g: Builder, points: Value) -> list[Value]:
    """The coordinates of the points, axis by axis."""
    assert points.shape is not None and isinstance(points.shape[-1], int)
    last = points.rank - 1
    parts = [g.op("Gather", points, g.constant(i, torch.int64), axis=last) for i in range(points.shape[-1])]
    return [_flat(g, part) for part in parts]


def _grid(g: Builder, axes: list[Value], bins: Any, bounds: Sequence[float] | None) -> list[Value]:
    each = [bins] * len(axes) if isinstance(bins, int) else bins
    return [
        count if isinstance(count, Value) else _edges(g, x, count, bounds[2 * i : 2 * i + 2] if bounds else None)
        for i, (x, count) in enumerate(zip(axes, each, strict=True))
    ]
