"""Emitters with axes: an attribute in older opsets, an input in newer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxport.lower.value import Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

Ints = Sequence[int]


def unsqueeze(g: Builder, x: Value, axes: Ints) -> Value:
    if not axes:
        return x
    return g.op("Unsqueeze", x, list(axes)) if g.opset >= 13 else g.op("Unsqueeze", x, axes=list(axes))


def squeeze(g: Builder, x: Value, axes: Ints) -> Value:
    if not axes:
        return x
    return g.op("Squeeze", x, list(axes)) if g.opset >= 13 else g.op("Squeeze", x, axes=list(axes))


def reduce(g: Builder, op: str, x: Value, axes: Ints | None, keepdims: bool) -> Value:
    """The axes are an input from opset 13 for ReduceSum, from 18 for others. ``axes=None`` reduces all."""
    if axes is not None and not axes:
        return x
    keep = int(keepdims)
    if axes is None:
        return g.op(op, x, keepdims=keep)
    if g.opset >= (13 if op == "ReduceSum" else 18):
        return g.op(op, x, list(axes), keepdims=keep)
    return g.op(op, x, axes=list(axes), keepdims=keep)


def transpose(g: Builder, x: Value, perm: Ints) -> Value:
    return x if list(perm) == list(range(len(perm))) else g.op("Transpose", x, perm=list(perm))


def shape(g: Builder, x: Value, start: int, end: int) -> Value:
    """A part of a shape as a 1-D tensor; Shape has start and end from opset 15."""
    if start == 0 and x.shape is not None and end == len(x.shape):
        return g.op("Shape", x)
    if g.opset >= 15:
        return g.op("Shape", x, start=start, end=end)
    if g.opset >= 10:
        return g.op("Slice", g.op("Shape", x), [start], [end], [0])
    return g.op("Slice", g.op("Shape", x), starts=[start], ends=[end], axes=[0])


def softmax(g: Builder, x: Value, axis: int, op: str = "Softmax") -> Value:
    """Before opset 13 the operator flattens all axes from the given one on, so the axis must be the last."""
    axis %= max(x.rank, 1)
    if g.opset >= 13 or axis == x.rank - 1:
        return g.op(op, x, axis=axis)
    swap = list(range(x.rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return g.op("Transpose", g.op(op, g.op("Transpose", x, perm=swap), axis=x.rank - 1), perm=swap)
