"""Adaptive pooling: window i of k over n elements is from floor(i*n/k) to ceil((i+1)*n/k)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from onnxport.graph.sizes import Size, product
from onnxport.graph.sizes.bounds import bounds
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import entries
from onnxport.lower.value import AnySize, Value
from onnxport.ops.nn.pooling import (
    Windows,
    average_pool,
    max_pool,
    max_with_indices,
    wants_indices,
    whole_plane,
    whole_plane_with_indices,
)


def _adaptive_average(spatial: int) -> Callable[..., Value]:
    def convert(g: Builder, self: Value, output_size: Sequence[AnySize]) -> Value:
        """aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
        wanted = _wanted(g, output_size, spatial)
        if 0 in g.outputs[0].shape:
            # The runtime's MatMul refuses an empty batch.
            return emit.filled(g, g.outputs[0].shape, 0, self.dtype)
        if all(size == 1 for size in wanted):
            return whole_plane(g, self, spatial, "Average")
        result, rest = _regular_axes(g, self, wanted, "Average")
        for axis in rest:
            result = _average_axis(g, result, axis, wanted[axis + spatial])
        return result

    return convert


def _adaptive_max(spatial: int) -> Callable[..., tuple[Value, Value]]:
    def convert(g: Builder, self: Value, output_size: Sequence[AnySize]) -> tuple[Value, Value]:
        """aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""
        wanted = _wanted(g, output_size, spatial)
        if all(size == 1 for size in wanted):
            return whole_plane_with_indices(g, self, spatial)
        if wants_indices(g):
            return _max_with_indices(g, self, wanted)
        result, rest = _regular_axes(g, self, wanted, "Max")
        for axis in rest:
            result = _max_axis(g, result, axis, wanted[axis + spatial])
        return result, result

    return convert


CONVERTERS = [
    *entries(_adaptive_average, {f"aten::adaptive_avg_pool{n}d": n for n in (1, 2, 3)}),
    *entries(_adaptive_average, {f"aten::_adaptive_avg_pool{n}d": n for n in (2, 3)}),
    *entries(_adaptive_max, {f"aten::adaptive_max_pool{n}d": n for n in (1, 2, 3)}),
]


def _wanted(g: Builder, output_size: Sequence[AnySize], spatial: int) -> list[AnySize]:
    """The size of each axis of the result: a number, or the argument if it is only known at run time."""
    requested = list(output_size) * (spatial // len(output_size))
    captured = g.outputs[0].shape[-spatial:]
    return [size if isinstance(size, int) else own for size, own in zip(captured, requested, strict=True)]


def _regular_axes(g: Builder, x: Value, wanted: Sequence[AnySize], kind: str) -> tuple[Value, list[int]]:
    """Pool the axes with windows of equal size by one node; the remaining axes are returned, counted from the end."""
    assert x.shape is not None
    spatial = len(wanted)
    regular = [_regular(size, count) for size, count in zip(x.shape[-spatial:], wanted, strict=True)]
    whole = [axis - spatial for axis in range(spatial) if wanted[axis] == 1]
    pooled = [axis for axis in range(spatial) if regular[axis] not in (None, (1, 1)) and axis - spatial not in whole]
    if pooled and g.runs(f"{kind}Pool", x.dtype):
        found = [windows or (1, 1) for windows in regular]
        windows = _windows([width for width, _ in found], [step for _, step in found])
        result = average_pool(g, x, windows) if kind == "Average" else max_pool(g, x, windows)
        whole = [axis for axis in whole if regular[axis + spatial] is None]
        rest = [axis - spatial for axis in range(spatial) if regular[axis] is None]
    else:
        result = x
        rest = [axis - spatial for axis in range(spatial) if regular[axis] != (1, 1)]
    reduced = [axis % x.rank for axis in whole if x.shape[axis] != 1]
    result = emit.reduce(g, "ReduceMean" if kind == "Average" else "ReduceMax", result, reduced, True)
    return result, [axis for axis in rest if axis not in whole]


def _regular(size: Size, count: AnySize) -> tuple[int, int] | None:
    """The size and step of the windows, if all windows have the same."""
    if size == sizes.known(count):
        return 1, 1
    if not isinstance(size, int) or not isinstance(count, int):
        return None
    bounds = _bounds(size, count)
    widths = {end - start for start, end in bounds}
    steps = {later[0] - former[0] for former, later in pairwise(bounds)} or widths
    # A single element may be several windows.
    return (max(widths), max(steps)) if len(widths) == len(steps) == 1 and steps != {0} else None


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _windows(widths: list[int], steps: list[int]) -> Windows:
    zeros = [0] * len(widths)
    return Windows(widths, steps, zeros, zeros, [1] * len(widths))


def _average_axis(g: Builder, x: Value, axis: int, count: AnySize) -> Value:
    """Pool one axis by a product with the matrix of weights of each element in each window."""
    assert x.shape is not None
    weights = _weights(g, x.shape[axis], count, x.dtype, transposed=axis == -2)
    after = g.outputs[0].shape[axis]
    if axis == -2:
        return g.op("MatMul", g.typed(weights, x.dtype, (after, x.shape[axis])), x)
    g.typed(weights, x.dtype, (x.shape[axis], after))
    swap = list(range(x.rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return emit.transpose(g, g.op("MatMul", emit.transpose(g, x, swap), weights), swap)


def _weights(g: Builder, size: Size, count: AnySize, dtype: torch.dtype, transposed: bool) -> Value:
    """The weight of an element, one over the size of the window, for each window with it: (size, count)."""
    if isinstance(size, int) and isinstance(count, int):
        matrix = torch.zeros(size, count, dtype=torch.float64)
        for window, (start, end) in enumerate(_bounds(size, count)):
            matrix[start:end, window] = 1 / (end - start)
        return g.constant(matrix.t() if transposed else matrix, dtype)
    starts, ends = _run_time_bounds(g, size, count)
    elements = emit.range_(g, 0, sizes.scalar(g, size), 1, torch.int64)
    if transposed:
        starts, ends = emit.unsqueeze(g, starts, [1]), emit.unsqueeze(g, ends, [1])
    else:
        elements = emit.unsqueeze(g, elements, [1])
    inside = g.op("And", g.op("Not", g.op("Less", elements, starts)), g.op("Less", elements, ends))
    return g.op("Div", g.cast(inside, dtype), g.cast(g.op("Sub", ends, starts), dtype))


def _run_time_bounds(g: Builder, size: Size, count: AnySize) -> tuple[Value, Value]:
    """The start and end of each window, as 1-D tensors."""
    g.require(11, "adaptive pooling to a size that is only known at run time")
    length, windows = sizes.scalar(g, size), sizes.scalar(g, count)
    if isinstance(count, int):
        numbers = g.constant(torch.arange(count))
    else:
        numbers = emit.range_(g, 0, windows, 1, torch.int64)
        windows = _divisor(g, windows, count)
    products = g.op("Mul", numbers, length)
    reach = g.op("Add", g.op("Add", products, length), g.op("Sub", windows, 1))
    return g.op("Div", products, windows), g.op("Div", reach, windows)


def _divisor(g: Builder, windows: Value, count: AnySize) -> Value:
    """The number of windows; where there may be none, the runtime would still divide by it."""
    known = sizes.known(count)
    return windows if known is not None and bounds(known)[0] >= 1 else g.op("Max", windows, 1)


def _members(g: Builder, size: Size, count: AnySize) -> Value:
    """The elements of each window: (count, width); shorter windows repeat their last element."""
    if isinstance(size, int) and isinstance(count, int):
        bounds = _bounds(size, count)
        width = max((end - start for start, end in bounds), default=0)
        return g.constant(
            torch.tensor([[min(start + i, end - 1) for i in range(width)] for start, end in bounds], dtype=torch.int64)
        )
    starts, ends = (emit.unsqueeze(g, bound, [1]) for bound in _run_time_bounds(g, size, count))
    windows = _divisor(g, sizes.scalar(g, count), count)
    widest = g.op("Add", g.op("Div", sizes.scalar(g, size), windows), 2)
    within = emit.range_(g, 0, widest, 1, torch.int64)
    return g.op("Min", g.op("Add", starts, within), g.op("Sub", ends, 1))


def _max_axis(g: Builder, x: Value, axis: int, count: AnySize) -> Value:
    assert x.shape is not None
    dim = axis % x.rank
    members = _members(g, x.shape[dim], count)
    gathered = g.op("Gather", x, members, axis=dim)
    result = emit.reduce(g, "ReduceMax", gathered, [dim + 1], False)
    return g.typed(result, x.dtype, (*x.shape[:dim], g.outputs[0].shape[axis], *x.shape[dim + 1 :]))


def _max_with_indices(g: Builder, x: Value, wanted: Sequence[AnySize]) -> tuple[Value, Value]:
    """MaxPool if the windows have equal sizes; else the elements of each window are gathered."""
    assert x.shape is not None
    spatial = len(wanted)
    extent = x.shape[-spatial:]
    regular = [_regular(size, count) for size, count in zip(extent, wanted, strict=True)]
    alike = [windows for windows in regular if windows is not None]
    if len(alike) == spatial:
        return max_with_indices(g, x, _windows([width for width, _ in alike], [step for _, step in alike]))
    counts = [count for count in wanted if isinstance(count, int)]
    if len(counts) < spatial:
        g.unsupported("the indices of adaptive pooling to a size that is only known at run time")
    members = _plane_members(g, extent, counts)
    count = math.prod(counts)
    planes = emit.reshape(g, x, (*x.shape[:-spatial], product(extent)))
    last = planes.rank
    gathered = g.op("Gather", planes, members, axis=last - 1)
    values = emit.reduce(g, "ReduceMax", gathered, [last], False)
    width = emit.slice_(g, g.op("Shape", members), [1], [2], [0])
    offsets = g.op("Mul", g.constant(torch.arange(count)), width)
    position = g.op("Add", g.op("ArgMax", gathered, axis=last, keepdims=0), offsets)
    indices = g.op("Gather", g.op("Reshape", members, [-1]), position, axis=0)
    shape = (*x.shape[:-spatial], count)
    g.typed(values, x.dtype, shape)
    g.typed(indices, torch.int64, shape)
    target = g.outputs[0].shape
    return emit.reshape(g, values, target), emit.reshape(g, indices, target)


def _plane_members(g: Builder, extent: Sequence[Size], wanted: Sequence[int]) -> Value:
    """The flat indices of the elements of each window in a plane: (windows, members)."""
    table = _members(g, extent[0], wanted[0])
    for axis in range(1, len(extent)):
        size, count = extent[axis], math.prod(wanted[: axis + 1])
        outer = emit.unsqueeze(g, g.op("Mul", table, sizes.scalar(g, size)), [1, 3])
        inner = emit.unsqueeze(g, _members(g, size, wanted[axis]), [0, 2])
        table = g.op("Reshape", g.op("Add", outer, inner), [count, -1])
    return table
