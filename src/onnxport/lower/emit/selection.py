"""Emitters of comparisons, Clip, Where and similar: operators that accepted fewer types, or were added later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from onnxport.lower.value import Operand, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder


def clip(g: Builder, x: Value, low: Operand | None, high: Operand | None) -> Value:
    """Bounds are inputs from opset 11, float attributes before.

    A missing bound is the largest finite number in the runtime, which would change infinities: use Max or Min then.
    """
    numbers = not isinstance(low, Value) and not isinstance(high, Value)
    if g.opset >= 12 and numbers and low is not None and high is not None:
        return g.op("Clip", x, g.cast(low, x.dtype), g.cast(high, x.dtype))
    if g.opset < 12 and numbers and x.is_float and (low is not None or high is not None) and x.dtype != torch.float64:
        return _clip_by_numbers(g, x, float("-inf" if low is None else low), float("inf" if high is None else high))  # type: ignore[arg-type]
    if low is not None:
        x = maximum(g, x, g.cast(low, x.dtype))
    return x if high is None else minimum(g, x, g.cast(high, x.dtype))


def _clip_by_numbers(g: Builder, x: Value, low: float, high: float) -> Value:
    if g.opset >= 11:
        return g.op("Clip", x, low, high)
    return g.op("Clip", x, min=min(low, high), max=high)


def maximum(g: Builder, x: Value, y: Value) -> Value:
    """Max broadcasts from opset 8 and accepts integers from 12."""
    return _extremum(g, "Max", "Greater", x, y)


def minimum(g: Builder, x: Value, y: Value) -> Value:
    return _extremum(g, "Min", "Less", x, y)


def _extremum(g: Builder, op: str, comparison: str, x: Value, y: Value) -> Value:
    if x.dtype == torch.bool:
        return g.op("Or" if op == "Max" else "And", x, y)
    if x.is_float and g.opset < 8 and x.shape != y.shape:
        g.require(8, f"{op} of tensors that are broadcast")
    if g.opset >= 12 or x.is_float:
        return g.op(op, x, y)
    return g.op("Where", g.op(comparison, x, y), x, y)


def where(g: Builder, condition: Value, x: Operand, y: Operand, dtype: torch.dtype | None = None) -> Value:
    left, right = g.promoted(x, y, dtype=dtype)
    return g.op("Where", g.cast(condition, torch.bool), left, right)


def equal(g: Builder, x: Value, y: Operand) -> Value:
    """Equal accepts floats from opset 11. Before, "neither less nor greater", and not NaN, by comparing x + y."""
    if g.opset >= 11 or not x.is_float:
        return g.op("Equal", x, y)
    same = g.op("Not", g.op("Or", g.op("Less", x, y), g.op("Greater", x, y)))
    return g.op("And", same, _is_number(g, g.op("Add", x, y) if isinstance(y, Value) else x))


def is_nan(g: Builder, x: Value) -> Value:
    """IsNaN from opset 9."""
    return g.op("IsNaN", x) if g.opset >= 9 else g.op("Not", _is_number(g, x))


def _is_number(g: Builder, x: Value) -> Value:
    """Every number is below one or above zero; NaN is neither."""
    return g.op("Or", g.op("Less", x, 1), g.op("Greater", x, 0))


def greater_or_equal(g: Builder, x: Value, y: Operand) -> Value:
    """GreaterOrEqual from opset 12. Before, Greater or Equal, which is also false for NaN."""
    return _or_equal(g, "Greater", "Less", x, y)


def less_or_equal(g: Builder, x: Value, y: Operand) -> Value:
    return _or_equal(g, "Less", "Greater", x, y)


def _or_equal(g: Builder, op: str, opposite: str, x: Value, y: Operand) -> Value:
    if g.opset >= 12:
        return g.op(f"{op}OrEqual", x, y)
    if not x.is_float:
        return g.op("Not", g.op(opposite, x, y))
    return g.op("Or", g.op(op, x, y), equal(g, x, y))


def round_(g: Builder, x: Value) -> Value:
    """Round, with ties to even, from opset 11. Before, by the difference to the floor.

    Numbers that are too large to have a fraction, infinity included, are returned unchanged.
    """
    if g.opset >= 11:
        return g.op("Round", x)
    if x.dtype not in (torch.float32, torch.float64):
        return g.cast(round_(g, g.cast(x, torch.float32)), x.dtype)
    whole = 1 / torch.finfo(x.dtype).eps
    size = g.op("Abs", x)
    part = clip(g, size, None, whole)
    below = g.op("Floor", part)
    rest = g.op("Sub", part, below)
    more, less = (g.cast(g.op(op, rest, 0.5), x.dtype) for op in ("Greater", "Less"))
    odd = g.op("Sub", below, g.op("Mul", g.op("Floor", g.op("Mul", below, 0.5)), 2.0))
    halves = g.op("Neg", g.op("Add", g.op("Add", more, less), -1.0))
    near = g.op("Add", g.op("Add", below, more), g.op("Mul", halves, odd))
    large = g.op("Mul", size, g.cast(g.op("Greater", size, whole), x.dtype))
    sign = g.op("Add", g.op("Mul", g.cast(g.op("Less", x, 0.0), x.dtype), -2.0), 1.0)
    return g.op("Mul", g.op("Max", near, large), sign)


def modulo(g: Builder, x: Value, divisor: Operand) -> Value:
    """The remainder of non-negative integers. Mod from opset 10."""
    if g.opset >= 10:
        return g.op("Mod", x, divisor)
    return g.op("Sub", x, g.op("Mul", g.op("Div", x, divisor), divisor))


def cumsum(g: Builder, x: Value, axis: int, *, exclusive: bool = False, reverse: bool = False) -> Value:
    return g.op("CumSum", x, g.constant(axis, torch.int64), exclusive=int(exclusive), reverse=int(reverse))


def dropout(g: Builder, x: Value, ratio: float) -> tuple[Value, Value]:
    """Dropout in training mode, and its mask. Before the training input of opset 12, Dropout only copies its input."""
    if g.opset >= 12:
        flag = g.constant(True, torch.bool)
        values, mask = g.op("Dropout", x, g.constant(ratio, torch.float32), flag, outputs=2)
        return g.typed(values, x.dtype, x.shape), g.typed(mask, torch.bool, x.shape)
    drawn = g.op("RandomUniformLike", x, dtype=torch.float32)
    mask = g.op("Less", g.typed(drawn, torch.float32, x.shape), 1 - ratio)
    return g.op("Div", g.op("Mul", x, g.cast(mask, x.dtype)), 1 - ratio), mask
