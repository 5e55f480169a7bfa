"""Comparisons and logic."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type, wide
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.lower.value_ranges import fits_32_bits, may_be_nan

Comparison = Callable[[Builder, Value, Value], Value]


def _comparison(compare: Comparison) -> Converter:
    def convert(g: Builder, self: Operand, other: Operand) -> Value:
        return compare(g, *g.promoted(self, other))

    return convert


def _not_equal(g: Builder, x: Value, y: Value) -> Value:
    return g.op("Not", emit.equal(g, x, y))


def _less(g: Builder, x: Value, y: Value) -> Value:
    return g.op("Less", x, y)


def _greater(g: Builder, x: Value, y: Value) -> Value:
    return g.op("Greater", x, y)


COMPARISONS = entries(
    _comparison,
    {
        "aten::eq": emit.equal,
        "aten::ne": _not_equal,
        "aten::not_equal": _not_equal,
        "aten::lt": _less,
        "aten::less": _less,
        "aten::gt": _greater,
        "aten::greater": _greater,
        "aten::le": emit.less_or_equal,
        "aten::less_equal": emit.less_or_equal,
        "aten::ge": emit.greater_or_equal,
        "aten::greater_equal": emit.greater_or_equal,
    },
)


def _logic(op: str) -> Converter:
    def convert(g: Builder, self: Value, other: Value) -> Value:
        return g.op(op, g.cast(self, torch.bool), g.cast(other, torch.bool))

    return convert


LOGIC = entries(_logic, {"aten::logical_and": "And", "aten::logical_or": "Or", "aten::logical_xor": "Xor"})


@converter("aten::logical_not")
def logical_not(g: Builder, self: Value) -> Value:
    """aten::logical_not(Tensor self) -> Tensor"""
    return g.op("Not", g.cast(self, torch.bool))


# Kinds of numbers


@converter("aten::isnan")
def isnan(g: Builder, self: Value) -> Value:
    """aten::isnan(Tensor self) -> Tensor"""
    return emit.is_nan(g, self) if self.is_float else _never(g, self)


@converter("aten::isinf")
def isinf(g: Builder, self: Value) -> Value:
    """aten::isinf(Tensor self) -> Tensor"""
    if not self.is_float:
        return _never(g, self)
    return g.op("IsInf", self) if g.opset >= 10 else g.op("Greater", g.op("Abs", self), torch.finfo(self.dtype).max)


@converter("aten::isfinite")
def isfinite(g: Builder, self: Value) -> Value:
    """aten::isfinite(Tensor self) -> Tensor"""
    return (
        g.op("Less", g.op("Abs", self), math.inf)
        if self.is_float
        else emit.filled(g, self.shape or (), True, torch.bool)
    )


@converter("aten::isreal")
def isreal(g: Builder, self: Value) -> Value:
    """aten::isreal(Tensor self) -> Tensor"""
    return emit.filled(g, self.shape or (), True, torch.bool)


@converter("aten::isposinf")
def isposinf(g: Builder, self: Value) -> Value:
    """aten::isposinf(Tensor self) -> Tensor"""
    if not self.is_float:
        return _never(g, self)
    return g.op("Greater", self, torch.finfo(self.dtype).max)


@converter("aten::isneginf")
def isneginf(g: Builder, self: Value) -> Value:
    """aten::isneginf(Tensor self) -> Tensor"""
    if not self.is_float:
        return _never(g, self)
    return g.op("Less", self, torch.finfo(self.dtype).min)


def _never(g: Builder, like: Value) -> Value:
    return emit.filled(g, like.shape or (), False, torch.bool)


@converter("aten::sign", "aten::sgn")
def sign(g: Builder, self: Value) -> Value:
    """aten::sign(Tensor self) -> Tensor"""
    if self.dtype == torch.bool:
        return self
    if g.opset >= 9 and may_be_nan(self):
        # torch returns 0 for NaN.
        return g.op("Where", emit.is_nan(g, self), g.constant(0.0, self.dtype), g.op("Sign", self))
    if g.opset >= 9 and fits_32_bits(self):
        return g.op("Sign", self)
    above, below = (g.cast(g.op(op, self, 0), self.dtype) for op in ("Greater", "Less"))
    return g.op("Sub", above, below)


@converter("aten::signbit")
def signbit(g: Builder, self: Value) -> Value:
    """aten::signbit(Tensor self) -> Tensor"""
    if self.dtype == torch.bool:
        return _never(g, self)
    negative = g.op("Less", self, 0)
    if not self.is_float:
        return negative
    # The reciprocal of negative zero is below zero.
    return g.op("Or", negative, g.op("Less", g.op("Reciprocal", self), 0.0))


# Closeness


@converter("aten::isclose")
def isclose(
    g: Builder, self: Value, other: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    """aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    left, right = g.promoted(self, other, dtype=wide(float_type(self, other)))
    close = emit.equal(g, left, right)
    if equal_nan and self.is_float:
        close = g.op("Or", close, g.op("And", emit.is_nan(g, left), emit.is_nan(g, right)))
    if rtol == 0 and atol == 0:
        return close
    allowed = g.op("Add", g.op("Mul", g.op("Abs", right), rtol), atol)
    distance = g.op("Abs", g.op("Sub", left, right))
    within = g.op("And", emit.less_or_equal(g, distance, allowed), g.op("Less", distance, math.inf))
    return g.op("Or", close, within)


@converter("aten::allclose")
def allclose(
    g: Builder, self: Value, other: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    """aten::allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool"""
    return _all(g, isclose(g, self, other, rtol, atol, equal_nan))


@converter("aten::equal")
def equal(g: Builder, self: Value, other: Value) -> Value:
    """aten::equal(Tensor self, Tensor other) -> bool"""
    if self.shape != other.shape:
        return g.constant(False, torch.bool)
    return _all(g, emit.equal(g, self, other))


def _all(g: Builder, mask: Value) -> Value:
    return g.cast(emit.reduce(g, "ReduceMin", g.cast(mask, torch.int32), None, False), torch.bool)


@converter("aten::isin")
def isin(
    g: Builder,
    elements: Operand | None = None,
    test_elements: Operand | None = None,
    assume_unique: bool = False,
    invert: bool = False,
    element: Operand | None = None,
    test_element: Operand | None = None,
) -> Value:
    """aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor"""  # noqa: E501
    sought = elements if elements is not None else element
    among = test_elements if test_elements is not None else test_element
    assert sought is not None and among is not None
    left, right = g.promoted(sought, among)
    if right.rank == 0:
        found = emit.equal(g, left, right)
    else:
        pairs = emit.equal(g, emit.unsqueeze(g, left, [left.rank]), emit.reshape(g, right, [-1]))
        found = g.cast(emit.reduce(g, "ReduceMax", g.cast(pairs, torch.int32), [left.rank], False), torch.bool)
    return g.op("Not", found) if invert else found
