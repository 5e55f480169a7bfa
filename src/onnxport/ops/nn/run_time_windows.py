"""Pools along axes whose windows are only known at run time: their width, step or padding follows a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.value import AnySize, Value


@dataclass(frozen=True)
class AxisWindows:
    """The windows along one axis: how many there are, where they start, and their width."""

    axis: int
    count: Size
    starts: Value
    width: Value
    padding: Value
    length: Value


def windows_along(g: Builder, x: Value, axis: int, width: AnySize, step: AnySize, padding: AnySize) -> AxisWindows:
    """The windows along an axis of a pool's input, which is counted from the beginning."""
    g.require(11, "a pool whose windows are only known at run time")
    assert x.shape is not None
    count = g.outputs[0].shape[axis]
    pad = sizes.scalar(g, padding)
    steps = g.op("Mul", emit.range_(g, 0, sizes.scalar(g, count), 1, torch.int64), sizes.scalar(g, step))
    starts = emit.unsqueeze(g, g.op("Sub", steps, pad), [1])
    return AxisWindows(axis, count, starts, sizes.scalar(g, width), pad, sizes.scalar(g, x.shape[axis]))


def largest(g: Builder, x: Value, windows: AxisWindows) -> Value:
    """The padding is less than every element: in its place stands the element next to it, which is in the window."""
    places = g.op("Add", windows.starts, emit.range_(g, 0, windows.width, 1, torch.int64))
    places = g.op("Max", g.op("Min", places, g.op("Sub", windows.length, 1)), 0)
    gathered = g.op("Gather", x, places, axis=windows.axis)
    return _typed(g, emit.reduce(g, "ReduceMax", gathered, [windows.axis + 1], False), x, windows)


def average(g: Builder, x: Value, windows: AxisWindows, *, count_padding: bool) -> Value:
    """A product with the weight of each element in each window. What ceil_mode adds at the end does not count."""
    if not x.is_float:
        g.unsupported("an average of integers over windows that are only known at run time")
    first = g.op("Max", windows.starts, 0)
    reach = g.op("Add", windows.starts, windows.width)
    ends = g.op("Min", reach, windows.length)
    if count_padding:
        divisor = g.op("Sub", g.op("Min", reach, g.op("Add", windows.length, windows.padding)), windows.starts)
    else:
        divisor = g.op("Sub", ends, first)
    elements = emit.range_(g, 0, windows.length, 1, torch.int64)
    inside = g.op("And", g.op("Not", g.op("Less", elements, first)), g.op("Less", elements, ends))
    weights = g.op("Div", g.cast(inside, x.dtype), g.cast(divisor, x.dtype))  # (windows, elements)
    if windows.axis == x.rank - 2:
        return _typed(g, g.op("MatMul", weights, x), x, windows)
    swap = list(range(x.rank))
    swap[windows.axis], swap[-1] = swap[-1], swap[windows.axis]
    product = g.op("MatMul", emit.transpose(g, x, swap), emit.transpose(g, weights, [1, 0]))
    return _typed(g, emit.transpose(g, product, swap), x, windows)


def _typed(g: Builder, made: Value, x: Value, windows: AxisWindows) -> Value:
    assert x.shape is not None
    return g.typed(made, x.dtype, (*x.shape[: windows.axis], windows.count, *x.shape[windows.axis + 1 :]))


def is_fixed(*settings: AnySize) -> bool:
    return all(isinstance(setting, int) for setting in settings)


def each(setting: Sequence[AnySize], spatial: int) -> list[AnySize]:
    """A setting that is given once for all spatial axes, or for each."""
    return list(setting) * (spatial // len(setting))
