"""Variants of the error function: scaled, inverse, and the normal distribution."""

from __future__ import annotations

import math

import torch
from torch import special

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.elementwise.unary import floating, logarithm_of_one_plus
from onnxport.ops.special.tabulated import Function, tabulated

# torch's own functions, with their types.
_erfcx: Function = special.erfcx
_ndtri: Function = special.ndtri
# The argument at the middle of the table of erfcx.
MIDDLE = 2.0
# sqrt(-log((1 - x) (1 + x))) of the largest x below 1, and of the smallest number as 4 p (1 - p).
FARTHEST = {torch.float32: 10.2, torch.float64: 27.4}


def _erfcx_size(w: torch.Tensor) -> torch.Tensor:
    x = MIDDLE / w - MIDDLE
    return (x + MIDDLE) * _erfcx(x)


def scaled_complement(g: Builder, x: Value) -> Value:
    """exp(x²) erfc(x) for non-negative x."""
    raised = g.op("Add", x, MIDDLE)
    (found,) = tabulated(g, g.op("Div", g.constant(MIDDLE, x.dtype), raised), [_erfcx_size], 0, 1)
    return g.op("Div", found, raised)


@converter("aten::special_erfcx")
def erfcx(g: Builder, self: Value) -> Value:
    """aten::special_erfcx(Tensor self) -> Tensor"""
    x = floating(g, self)
    above = scaled_complement(g, g.op("Abs", x))
    grown = g.op("Mul", g.op("Exp", g.op("Mul", x, x)), 2)
    return g.op("Where", g.op("Less", x, 0), g.op("Sub", grown, above), above)


@converter("aten::special_log_ndtr")
def log_ndtr(g: Builder, self: Value) -> Value:
    """aten::special_log_ndtr(Tensor self) -> Tensor"""
    x = g.op("Mul", floating(g, self), math.sqrt(0.5))
    square = g.op("Mul", x, x)
    half = g.op("Mul", scaled_complement(g, g.op("Abs", x)), 0.5)
    below = g.op("Sub", g.op("Log", half), square)
    above = logarithm_of_one_plus(g, g.op("Neg", g.op("Mul", half, g.op("Exp", g.op("Neg", square)))))
    return g.op("Where", g.op("Less", x, 0), below, above)


def _inverse_size(s: torch.Tensor) -> torch.Tensor:
    """The inverse error function of x over x, where s is sqrt(-log(1 - x²))."""
    product = torch.exp(-s * s)
    x = torch.sqrt(-torch.expm1(-s * s))
    return -math.sqrt(0.5) / x * _ndtri(product / (1 + x) / 2)


def _inverse(g: Builder, x: Value, product: Value) -> Value:
    """The inverse error function of x, given (1 - x) (1 + x)."""
    argument = g.op("Sqrt", g.op("Neg", g.op("Log", emit.clip(g, product, None, 1.0))))
    (ratio,) = tabulated(g, argument, [_inverse_size], 0, FARTHEST[x.dtype])
    value = g.op("Mul", x, ratio)
    # If the product is 0, the result is infinite; if it is negative, the root is NaN.
    return g.op("Where", emit.equal(g, product, 0), g.op("Mul", x, math.inf), value)


@converter("aten::erfinv", "aten::special_erfinv")
def erfinv(g: Builder, self: Value) -> Value:
    """aten::erfinv(Tensor self) -> Tensor"""
    x = floating(g, self)
    return _inverse(g, x, g.op("Mul", g.op("Sub", g.constant(1, x.dtype), x), g.op("Add", x, 1)))


@converter("aten::special_ndtri")
def ndtri(g: Builder, self: Value) -> Value:
    """aten::special_ndtri(Tensor self) -> Tensor"""
    p = floating(g, self)
    product = g.op("Mul", g.op("Mul", p, g.op("Sub", g.constant(1, p.dtype), p)), 4)
    x = g.op("Sub", g.op("Add", p, p), 1)
    return g.op("Mul", _inverse(g, x, product), math.sqrt(2))
