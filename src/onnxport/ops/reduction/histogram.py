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


def counted(g: Builder, places: Value, count: int, weights: Value | None, dtype: torch.dtype) -> Value:
    """How often each of ``count`` places occurs, or the sum of the weights that fall on it."""
    assert places.shape is not None
    if g.opset >= FIRST_SCATTER_ADD:
        values = weights if weights is not None else emit.filled(g, places.shape, 1, dtype)
        return emit.scatter_elements(g, emit.filled(g, [count], 0, dtype), places, values, 0, "add")
    hits = g.cast(g.op("Equal", emit.unsqueeze(g, places, [1]), g.constant(torch.arange(count))), dtype)
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
    places = g.cast(self, torch.int64)
    # The last index of the shortest result keeps the maximum defined where there is nothing to count.
    before = g.op("Concat", g.op("Sub", shortest, 1), places, axis=0)
    count = g.op("Add", g.op("ReduceMax", before, keepdims=1), 1)
    zeros = g.op("ConstantOfShape", count, value=torch.zeros(1, dtype=dtype))
    values = g.cast(weights, dtype) if weights is not None else emit.filled(g, self.shape or (), 1, dtype)
    return emit.scatter_elements(g, zeros, places, values, 0, "add")


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
    # The upper bound belongs to the last bin; what is outside falls on a place behind it.
    last = g.op("Min", g.cast(emit.where(g, inside, share, 0, x.dtype), torch.int64), bins - 1)
    place = emit.where(g, inside, last, bins, torch.int64)
    return emit.slice_(g, counted(g, place, bins + 1, None, dtype), [0], [bins], [0])


def _rounded(g: Builder, step: Value, dtype: torch.dtype) -> Value:
    """A step in single precision, rounded to half as torch rounds each: the runtime would round the last alone."""
    return g.cast(g.cast(step, dtype), step.dtype)


def _bounds(g: Builder, x: Value, given: Sequence[float] | None, apart: float) -> tuple[Value, Value]:
    """The bounds as given, else those of the elements; apart where they are one."""
    if given is not None:
        low, high = given
        if low == high:
            low, high = low - apart, high + apart
        return g.constant(low, x.dtype), g.constant(high, x.dtype)
    ends = [g.op(op, x, keepdims=0) for op in ("ReduceMin", "ReduceMax")]
    apart_now = emit.where(g, emit.equal(g, *ends), apart, 0.0, x.dtype)
    return g.op("Sub", ends[0], apart_now), g.op("Add", ends[1], apart_now)


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


def _edges(g: Builder, x: Value, bins: int, given: Sequence[float] | None) -> Value:
    """Bounds of bins of one width."""
    if given is None and x.shape == (0,):
        given = (0.0, 1.0)
    if given is not None:
        low, high = (given[0] - 0.5, given[1] + 0.5) if given[0] == given[1] else given
        return g.constant(torch.linspace(low, high, bins + 1, dtype=x.dtype))
    first, last = _bounds(g, x, None, 0.5)
    steps = g.constant(torch.arange(bins + 1), x.dtype)
    step = g.op("Div", g.op("Sub", last, first), g.constant(bins, x.dtype))
    # From both ends, so that the last is met to the bit.
    rising = g.op("Add", first, g.op("Mul", steps, step))
    falling = g.op("Sub", last, g.op("Mul", g.constant(bins - torch.arange(bins + 1), x.dtype), step))
    return g.op("Where", g.constant(torch.arange(bins + 1) < (bins + 1) // 2), rising, falling)


def _histogram(g: Builder, axes: list[Value], edges: list[Value], weight: Value | None, density: bool) -> Value:
    """How many points, or how much weight, is between the edges along each axis."""
    counts = [_bins(edge) for edge in edges]
    total = math.prod(counts)
    dtype = axes[0].dtype
    place: Value | None = None
    inside: Value | None = None
    for x, edge, count in zip(axes, edges, counts, strict=True):
        first, last = (g.op("Gather", edge, g.constant(at, torch.int64)) for at in (0, count))
        within = g.op("And", emit.greater_or_equal(g, x, first), emit.less_or_equal(g, x, last))
        inner = emit.slice_(g, edge, [1], [count], [0])
        passed = g.cast(emit.greater_or_equal(g, emit.unsqueeze(g, x, [1]), inner), torch.int64)
        own = emit.reduce(g, "ReduceSum", passed, [1], keepdims=False)
        place = own if place is None else g.op("Add", g.op("Mul", place, count), own)
        inside = within if inside is None else g.op("And", inside, within)
    assert place is not None and inside is not None
    outside = emit.where(g, inside, place, total, torch.int64)
    flat = None if weight is None else _flat(g, g.cast(weight, dtype))
    hits = emit.slice_(g, counted(g, outside, total + 1, flat, dtype), [0], [total], [0])
    result = emit.reshape(g, g.typed(hits, dtype, (total,)), counts)
    return _dense(g, result, edges) if density else result


def _dense(g: Builder, counts: Value, edges: list[Value]) -> Value:
    """The counts divided by all of them and by the size of the bins."""
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


def _grid(g: Builder, axes: list[Value], bins: Any, given: Sequence[float] | None) -> list[Value]:
    each = [bins] * len(axes) if isinstance(bins, int) else bins
    return [
        count if isinstance(count, Value) else _edges(g, x, count, given[2 * i : 2 * i + 2] if given else None)
        for i, (x, count) in enumerate(zip(axes, each, strict=True))
    ]
