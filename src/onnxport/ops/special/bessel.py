"""Bessel and Airy functions.

Near zero the table has a function without its logarithm and poles; far away it has the slowly varying amplitude of a
wave or an exponential. Only smooth functions are tabulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import special

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Value
from onnxport.ops.elementwise.unary import floating
from onnxport.ops.special.tabulated import Function, tabulated

# The argument from which the form for large arguments is used.
WAVES = 8.0
DECAY = 2.0
# torch's Airy function has a small step at -2.09, which must not be inside an interval of the table.
AIRY = (-8.09, 7.91)
# The argument at the middle of the table of I0 and I1.
MIDDLE = 4.0
AIRY_TERMS = {torch.float32: 6, torch.float64: 12}

Tensor = torch.Tensor
# torch's own functions, with their types.
_i0e: Function = special.i0e
_i1e: Function = special.i1e
_i0: Function = special.i0
_i1: Function = special.i1
_k0: Function = special.modified_bessel_k0
_k1: Function = special.modified_bessel_k1
_k0e: Function = special.scaled_modified_bessel_k0
_k1e: Function = special.scaled_modified_bessel_k1
_j0: Function = special.bessel_j0
_j1: Function = special.bessel_j1
_y0: Function = special.bessel_y0
_y1: Function = special.bessel_y1
_airy_ai: Function = special.airy_ai


def _unary(make: Callable[..., Value], *arguments: object) -> Converter:
    """A converter for a function of one tensor, whatever the name of its parameter."""

    def convert(g: Builder, self: Value | None = None, x: Value | None = None) -> Value:
        argument = self if self is not None else x
        assert argument is not None
        return make(g, floating(g, argument), *arguments)

    return convert


def _otherwise(g: Builder, x: Value, at_zero: float, value: Value) -> Value:
    return g.op("Where", emit.equal(g, x, 0), g.constant(at_zero, x.dtype), value)


# I0 and I1: one table for all arguments, in the variable c / (c + |x|)


def _argument(w: Tensor) -> Tensor:
    return MIDDLE / w - MIDDLE


def _i0_size(w: Tensor) -> Tensor:
    x = _argument(w)
    return torch.sqrt(x + MIDDLE) * _i0e(x)


def _i1_size(w: Tensor) -> Tensor:
    x = _argument(w)
    return (x + MIDDLE) ** 1.5 / x * _i1e(x)


def modified_bessel(g: Builder, x: Value, order: int, scaled: bool) -> Value:
    """I0 or I1, times exp(-|x|) if it is scaled."""
    largest = torch.finfo(x.dtype).max
    finite = emit.clip(g, x, -largest, largest) if order and scaled else x
    size = g.op("Abs", finite)
    raised = g.op("Add", size, MIDDLE)
    (found,) = tabulated(g, g.op("Div", g.constant(MIDDLE, x.dtype), raised), [(_i0_size, _i1_size)[order]], 0, 1)
    result = g.op("Div", found, g.op("Sqrt", raised))
    if order:
        result = g.op("Mul", result, g.op("Div", finite, raised))
    return result if scaled else g.op("Mul", result, g.op("Exp", g.op("Abs", x)))


MODIFIED = entries(
    lambda order, scaled: _unary(modified_bessel, order, scaled),
    {
        "aten::i0": (0, False),
        "aten::special_i0": (0, False),
        "aten::special_modified_bessel_i0": (0, False),
        "aten::special_i0e": (0, True),
        "aten::special_i1": (1, False),
        "aten::special_modified_bessel_i1": (1, False),
        "aten::special_i1e": (1, True),
    },
)


# K0 and K1


def _k0_near(x: Tensor) -> Tensor:
    return torch.log(x) * _i0(x) + _k0(x)


def _k0_far(w: Tensor) -> Tensor:
    x = DECAY / w
    return torch.sqrt(x) * _k0e(x)


def _k1_near(x: Tensor) -> Tensor:
    return x * (_k1(x) - torch.log(x) * _i1(x))


def _i1_over(x: Tensor) -> Tensor:
    return 1 / x * _i1(x)


def _k1_far(w: Tensor) -> Tensor:
    x = DECAY / w
    return torch.sqrt(x) * _k1e(x)


def _decaying(g: Builder, x: Value, order: int, scaled: bool) -> Value:
    """Below 2: -log(x) I0(x) + a(x), or log(x) I1(x) + a(x) / x. From 2 on: exp(-x) / sqrt(x) and a slow factor."""
    logarithm = g.op("Log", x)
    smooth, rising = tabulated(g, x, [(_k0_near, _i0), (_k1_near, _i1_over)][order], 0, DECAY)
    if order:
        near = g.op("Add", g.op("Div", smooth, x), g.op("Mul", g.op("Mul", logarithm, x), rising))
    else:
        near = g.op("Sub", smooth, g.op("Mul", logarithm, rising))
    (slow,) = tabulated(g, g.op("Div", g.constant(DECAY, x.dtype), x), [(_k0_far, _k1_far)[order]], 0, 1)
    far = g.op("Div", slow, g.op("Sqrt", x))
    if scaled:
        near = g.op("Mul", near, g.op("Exp", x))
    else:
        far = g.op("Mul", far, g.op("Exp", g.op("Neg", x)))
    return _otherwise(g, x, math.inf, g.op("Where", g.op("Less", x, DECAY), near, far))


DECAYING = entries(
    lambda order, scaled: _unary(_decaying, order, scaled),
    {
        "aten::special_modified_bessel_k0": (0, False),
        "aten::special_modified_bessel_k1": (1, False),
        "aten::special_scaled_modified_bessel_k0": (0, True),
        "aten::special_scaled_modified_bessel_k1": (1, True),
    },
)


# J0, J1, Y0 and Y1: far away J + iY is a wave exp(i (x - pi/4 - order pi/2)) times a slow p + iq


def _slow(w: Tensor, order: int) -> tuple[Tensor, Tensor]:
    x = WAVES / w
    j, y = ((_j0, _y0), (_j1, _y1))[order]
    phase = x - math.pi / 4 - order * math.pi / 2
    cosine, sine, size = torch.cos(phase), torch.sin(phase), torch.sqrt(x * math.pi / 2)
    return (j(x) * cosine + y(x) * sine) * size, (y(x) * cosine - j(x) * sine) * size


def _p0(w: Tensor) -> Tensor:
    return _slow(w, 0)[0]


def _q0(w: Tensor) -> Tensor:
    return _slow(w, 0)[1]


def _p1(w: Tensor) -> Tensor:
    return _slow(w, 1)[0]


def _q1(w: Tensor) -> Tensor:
    return _slow(w, 1)[1]


def _j1_over(x: Tensor) -> Tensor:
    return 1 / x * _j1(x)


def _y0_near(x: Tensor) -> Tensor:
    return -2 / math.pi * torch.log(x) * _j0(x) + _y0(x)


def _y1_near(x: Tensor) -> Tensor:
    singular = torch.log(x) * _j1(x) - 1 / x
    return (_y1(x) - 2 / math.pi * singular) / x


def _wave(g: Builder, x: Value, order: int, second: bool) -> Value:
    """The form for large positive arguments."""
    p, q = tabulated(g, g.op("Div", g.constant(WAVES, x.dtype), x), [(_p0, _q0), (_p1, _q1)][order], 0, 1)
    cosine, sine = g.op("Cos", x), g.op("Sin", x)
    both, less = g.op("Add", sine, cosine), g.op("Sub", sine, cosine)
    # The cosine and sine of the phase, times the square root of 2.
    real, imaginary = (both, less) if order == 0 else (less, g.op("Neg", both))
    if second:
        total = g.op("Add", g.op("Mul", p, imaginary), g.op("Mul", q, real))
    else:
        total = g.op("Sub", g.op("Mul", p, real), g.op("Mul", q, imaginary))
    return g.op("Div", total, g.op("Sqrt", g.op("Mul", x, math.pi)))


def _first_kind(g: Builder, x: Value, order: int) -> Value:
    size = g.op("Abs", x)
    (near,) = tabulated(g, size, [(_j0, _j1_over)[order]], 0, WAVES)
    far = _wave(g, size, order, second=False)
    if order:
        near, far = g.op("Mul", near, x), g.op("Mul", far, g.op("Sign", x))
    return g.op("Where", g.op("Less", size, WAVES), near, far)


def _second_kind(g: Builder, x: Value, order: int) -> Value:
    smooth, first = tabulated(g, x, [(_y0_near, _j0), (_y1_near, _j1_over)][order], 0, WAVES)
    singular = g.op("Mul", g.op("Log", x), g.op("Mul", first, x) if order else first)
    if order:
        singular, smooth = g.op("Sub", singular, g.op("Reciprocal", x)), g.op("Mul", smooth, x)
    near = g.op("Add", g.op("Mul", singular, 2 / math.pi), smooth)
    far = _wave(g, x, order, second=True)
    return _otherwise(g, x, -math.inf, g.op("Where", g.op("Less", x, WAVES), near, far))


FIRST_KIND = entries(
    lambda order: _unary(_first_kind, order), {"aten::special_bessel_j0": 0, "aten::special_bessel_j1": 1}
)
SECOND_KIND = entries(
    lambda order: _unary(_second_kind, order), {"aten::special_bessel_y0": 0, "aten::special_bessel_y1": 1}
)


@converter("aten::special_spherical_bessel_j0")
def spherical_bessel_j0(g: Builder, x: Value) -> Value:
    """aten::special_spherical_bessel_j0(Tensor x) -> Tensor"""
    source = floating(g, x)
    limit = torch.finfo(source.dtype).max
    ratio = g.op("Div", g.op("Sin", source), source)
    ratio = g.op("Where", g.op("Greater", g.op("Abs", source), limit), g.constant(0, source.dtype), ratio)
    return _otherwise(g, source, 1.0, ratio)


# Airy's function


@converter("aten::special_airy_ai")
def airy_ai(g: Builder, x: Value) -> Value:
    """aten::special_airy_ai(Tensor x) -> Tensor

    From a table in the middle, by the asymptotic series beyond.
    """
    source = floating(g, x)
    (middle,) = tabulated(g, source, [_airy_ai], *AIRY)
    size = g.op("Abs", source)
    root = g.op("Sqrt", size)
    zeta = g.op("Mul", g.op("Mul", size, root), 2 / 3)
    total, even, odd = _airy_series(g, zeta)
    shrinking = g.op("Mul", g.op("Mul", total, g.op("Exp", g.op("Neg", zeta))), 0.5)
    phase = g.op("Add", zeta, math.pi / 4)
    waving = g.op("Sub", g.op("Mul", g.op("Sin", phase), even), g.op("Mul", g.op("Cos", phase), odd))
    # At infinity torch returns NaN, as the waves do.
    finite = g.op("And", g.op("Greater", source, 0), emit.less_or_equal(g, source, torch.finfo(source.dtype).max))
    far = g.op("Where", finite, shrinking, waving)
    far = g.op("Div", far, g.op("Sqrt", g.op("Mul", root, math.pi)))
    within = g.op("And", g.op("Greater", source, AIRY[0]), g.op("Less", source, AIRY[1]))
    return g.op("Where", within, middle, far)


def _airy_series(g: Builder, zeta: Value) -> list[Value]:
    """Sums over the powers of 1 / zeta: of all terms with changing signs, of the even ones, and of the odd ones."""
    terms = [1.0]
    for k in range(1, AIRY_TERMS[zeta.dtype]):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    factors = torch.zeros(len(terms), 3, dtype=torch.float64)
    for k, term in enumerate(terms):
        factors[k, 0] = (-1) ** k * term
        factors[k, 1 + k % 2] = (-1) ** (k // 2) * term
    inverse = emit.unsqueeze(g, g.op("Reciprocal", zeta), [zeta.rank])
    powers = g.op("Pow", inverse, g.constant(torch.arange(len(terms)), zeta.dtype))
    sums = emit.split(g, g.op("MatMul", powers, g.constant(factors, zeta.dtype)), [1, 1, 1], zeta.rank)
    return [emit.squeeze(g, part, [zeta.rank]) for part in sums]
