"""Elementary functions of one tensor."""

from __future__ import annotations

import math

import numpy as np
import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type, wide
from onnxport.lower.quantized import quantized_by
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Value

# Enough terms for erf in double precision; its argument is clamped to 6, beyond which erf is 1.
QUADRATURE_POINTS = 40
# Arguments of the gamma functions are shifted by this much, to where the asymptotic series is exact.
GAMMA_SHIFT = 9
LARGEST_SQUARE = 1e150
# Above this, a few logarithms of a number are negligible compared with the number.
HUGE = 1e30


def floating(g: Builder, value: Value) -> Value:
    """The value as a float, half precision as single; for computations in several steps."""
    return g.cast(value, wide(float_type(value)))


def _function(op: str) -> Converter:
    """A function that is one ONNX operator; composed of others where the opset or the runtime lacks it."""

    def convert(g: Builder, self: Value) -> Value:
        return apply(g, op, g.cast(self, float_type(self)))

    return convert


def apply(g: Builder, op: str, x: Value) -> Value:
    composed = COMPOSED.get(op)
    if composed is None or g.runs(op, wide(x.dtype)):
        return g.op(op, x)
    return composed(g, g.cast(x, wide(x.dtype)))


FUNCTIONS = entries(
    _function,
    {
        "aten::exp": "Exp",
        "aten::log": "Log",
        "aten::sqrt": "Sqrt",
        "aten::reciprocal": "Reciprocal",
        "aten::sin": "Sin",
        "aten::cos": "Cos",
        "aten::tan": "Tan",
        "aten::asin": "Asin",
        "aten::arcsin": "Asin",
        "aten::acos": "Acos",
        "aten::arccos": "Acos",
        "aten::atan": "Atan",
        "aten::arctan": "Atan",
        "aten::sinh": "Sinh",
        "aten::cosh": "Cosh",
        "aten::asinh": "Asinh",
        "aten::arcsinh": "Asinh",
        "aten::acosh": "Acosh",
        "aten::arccosh": "Acosh",
        "aten::atanh": "Atanh",
        "aten::arctanh": "Atanh",
        "aten::erf": "Erf",
        "aten::special_erf": "Erf",
    },
)


# The same functions from simpler ones.


def _tan(g: Builder, x: Value) -> Value:
    return g.op("Div", g.op("Sin", x), g.op("Cos", x))


def _atan(g: Builder, x: Value) -> Value:
    """The angle in single precision, corrected by its error, which is so small that it equals its tangent."""
    x = emit.clip(g, x, -LARGEST_SQUARE, LARGEST_SQUARE)
    near = g.cast(g.op("Atan", g.cast(x, torch.float32)), x.dtype)
    sine, cosine = g.op("Sin", near), g.op("Cos", near)
    across = g.op("Sub", g.op("Mul", x, cosine), sine)
    return g.op("Add", near, g.op("Div", across, g.op("Add", cosine, g.op("Mul", x, sine))))


def arctangent(g: Builder, x: Value) -> Value:
    return apply(g, "Atan", x)


def _asin(g: Builder, x: Value) -> Value:
    adjacent = g.op("Sqrt", g.op("Mul", g.op("Sub", g.constant(1.0, x.dtype), x), g.op("Add", x, 1.0)))
    return _atan(g, g.op("Div", x, adjacent))


def _acos(g: Builder, x: Value) -> Value:
    half = g.op("Sqrt", g.op("Div", g.op("Sub", g.constant(1.0, x.dtype), x), g.op("Add", x, 1.0)))
    return g.op("Mul", _atan(g, half), 2.0)


def _cosh(g: Builder, x: Value) -> Value:
    return g.op("Mul", g.op("Add", g.op("Exp", x), g.op("Exp", g.op("Neg", x))), 0.5)


def _sinh(g: Builder, x: Value) -> Value:
    """By tanh, because the difference of two exponentials is not exact near zero."""
    return g.op("Mul", g.op("Tanh", x), _cosh(g, x))


def _asinh(g: Builder, x: Value) -> Value:
    size = g.op("Abs", x)
    root = g.op("Sqrt", g.op("Add", g.op("Mul", x, x), 1.0))
    grown = g.op("Add", size, g.op("Div", g.op("Mul", x, x), g.op("Add", root, 1.0)))
    return g.op("Mul", g.op("Sign", x), logarithm_of_one_plus(g, grown))


def _acosh(g: Builder, x: Value) -> Value:
    root = g.op("Mul", g.op("Sqrt", g.op("Sub", x, 1.0)), g.op("Sqrt", g.op("Add", x, 1.0)))
    return g.op("Log", g.op("Add", x, root))


def _atanh(g: Builder, x: Value) -> Value:
    ratio = g.op("Div", g.op("Add", x, 1.0), g.op("Sub", g.constant(1.0, x.dtype), x))
    return g.op("Mul", g.op("Log", ratio), 0.5)


def _erf(g: Builder, x: Value) -> Value:
    """erf as an integral, by Gaussian quadrature: exact to the last digits."""
    points, weights = np.polynomial.legendre.leggauss(QUADRATURE_POINTS)
    squares = torch.from_numpy(-(((points + 1) / 2) ** 2)).to(x.dtype)
    factors = torch.from_numpy(weights / math.sqrt(math.pi)).to(x.dtype)
    x = emit.clip(g, x, -6.0, 6.0)
    heights = g.op("Exp", g.op("Mul", emit.unsqueeze(g, g.op("Mul", x, x), [x.rank]), g.constant(squares)))
    return g.op("Mul", x, emit.reduce(g, "ReduceSum", g.op("Mul", heights, g.constant(factors)), [x.rank], False))


COMPOSED = {
    "Tan": _tan, "Atan": _atan, "Asin": _asin, "Acos": _acos, "Sinh": _sinh, "Cosh": _cosh, "Asinh": _asinh,
    "Acosh": _acosh, "Atanh": _atanh, "Erf": _erf,
}  # fmt: skip


def error_function(g: Builder, x: Value) -> Value:
    """erf of a float tensor at every opset and precision."""
    return apply(g, "Erf", x)


# Functions with the dtype of their argument


def _unary(op: str) -> Converter:
    def convert(g: Builder, self: Value) -> Value:
        return g.op(op, self)

    return convert


def _to_whole(op: str) -> Converter:
    def convert(g: Builder, self: Value) -> Value:
        return g.op(op, self) if self.is_float else self

    return convert


SAME_DTYPE = entries(_unary, {"aten::abs": "Abs", "aten::absolute": "Abs", "aten::neg": "Neg", "aten::negative": "Neg"})
TO_WHOLE = entries(_to_whole, {"aten::ceil": "Ceil", "aten::floor": "Floor"})


@converter("aten::positive")
def positive(g: Builder, self: Value) -> Value:
    """aten::positive(Tensor(a) self) -> Tensor(a)"""
    return self


@converter("aten::round", "aten::special_round")
def round(g: Builder, self: Value, decimals: int = 0) -> Value:
    """aten::round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if not self.is_float:
        return self
    if decimals == 0:
        return quantized_by(emit.round_(g, self), g.outputs[0])
    scale = 10.0 ** abs(decimals)
    before, after = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return g.op(after, emit.round_(g, g.op(before, floating(g, self), scale)), scale)


@converter("aten::trunc", "aten::fix")
def trunc(g: Builder, self: Value) -> Value:
    """aten::trunc(Tensor self) -> Tensor"""
    return truncated(g, self) if self.is_float else self


def truncated(g: Builder, x: Value) -> Value:
    """Towards zero; infinities stay."""
    if g.opset >= 9:
        return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))
    above, below = (g.op("Floor", g.op("Relu", side)) for side in (x, g.op("Neg", x)))
    return g.op("Sub", above, below)


@converter("aten::frac")
def frac(g: Builder, self: Value) -> Value:
    """aten::frac(Tensor self) -> Tensor"""
    return g.op("Mod", self, 1.0, fmod=1) if g.opset >= 10 else g.op("Sub", self, truncated(g, self))


@converter("aten::nan_to_num")
def nan_to_num(
    g: Builder, self: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not self.is_float:
        return self
    limits = torch.finfo(self.dtype)
    result = emit.clip(g, self, limits.min, limits.max) if posinf is None or neginf is None else self
    if posinf is not None:
        result = g.op("Where", g.op("Greater", self, limits.max), g.constant(posinf, self.dtype), result)
    if neginf is not None:
        result = g.op("Where", g.op("Less", self, limits.min), g.constant(neginf, self.dtype), result)
    return g.op("Where", emit.is_nan(g, self), g.constant(nan or 0.0, self.dtype), result)


# Exponentials and logarithms


@converter("aten::exp2", "aten::special_exp2")
def exp2(g: Builder, self: Value) -> Value:
    """aten::exp2(Tensor self) -> Tensor"""
    x = g.cast(self, float_type(self))
    return g.op("Pow", g.constant(2.0, x.dtype), x)


@converter("aten::expm1", "aten::special_expm1")
def expm1(g: Builder, self: Value) -> Value:
    """aten::expm1(Tensor self) -> Tensor"""
    x = floating(g, self)
    # exp(x) - 1 would lose all digits near zero.
    return g.op("Mul", g.op("Tanh", g.op("Mul", x, 0.5)), g.op("Add", g.op("Exp", x), 1.0))


@converter("aten::log1p", "aten::special_log1p")
def log1p(g: Builder, self: Value) -> Value:
    """aten::log1p(Tensor self) -> Tensor"""
    return logarithm_of_one_plus(g, floating(g, self))


def logarithm_of_one_plus(g: Builder, x: Value) -> Value:
    """log(1 + x), corrected by the rounding error of the sum."""
    small = emit.clip(g, x, -0.5, 0.5)
    rounded = g.op("Sub", small, g.op("Sub", g.op("Add", small, 1.0), 1.0))
    return g.op("Add", g.op("Log", g.op("Add", x, 1.0)), rounded)


def _logarithm(base: float) -> Converter:
    def convert(g: Builder, self: Value) -> Value:
        return g.op("Div", g.op("Log", floating(g, self)), math.log(base))

    return convert


def _scaling(factor: float) -> Converter:
    def convert(g: Builder, self: Value) -> Value:
        return g.op("Mul", g.cast(self, float_type(self)), factor)

    return convert


LOGARITHMS = entries(_logarithm, {"aten::log2": 2, "aten::log10": 10})
SCALINGS = entries(_scaling, {"aten::deg2rad": math.pi / 180, "aten::rad2deg": 180 / math.pi})


@converter("aten::rsqrt")
def rsqrt(g: Builder, self: Value) -> Value:
    """aten::rsqrt(Tensor self) -> Tensor

    ONNX Runtime's fusion to SimplifiedLayerNormalization looks for this division.
    """
    x = floating(g, self)
    return g.op("Div", g.constant(1.0, x.dtype), g.op("Sqrt", x))


@converter("aten::logit", "aten::special_logit")
def logit(g: Builder, self: Value, eps: float | None = None) -> Value:
    """aten::logit(Tensor self, float? eps=None) -> Tensor"""
    x = floating(g, self)
    if eps is not None:
        x = emit.clip(g, x, eps, 1 - eps)
    return g.op("Log", g.op("Div", x, g.op("Sub", g.constant(1.0, x.dtype), x)))


@converter("aten::special_entr")
def entr(g: Builder, self: Value) -> Value:
    """aten::special_entr(Tensor self) -> Tensor"""
    x = floating(g, self)
    outside = g.op("Where", g.op("Less", x, 0.0), g.constant(-math.inf, x.dtype), x)
    product = g.op("Neg", g.op("Mul", x, g.op("Log", x)))
    return g.op("Where", g.op("Greater", x, 0.0), product, outside)


@converter("aten::sinc", "aten::special_sinc")
def sinc(g: Builder, self: Value) -> Value:
    """aten::sinc(Tensor self) -> Tensor"""
    x = g.op("Mul", floating(g, self), math.pi)
    return g.op("Where", emit.equal(g, x, 0.0), g.constant(1.0, x.dtype), g.op("Div", g.op("Sin", x), x))


# Error and gamma functions


@converter("aten::erfc", "aten::special_erfc")
def erfc(g: Builder, self: Value) -> Value:
    """aten::erfc(Tensor self) -> Tensor"""
    x = floating(g, self)
    return g.op("Sub", g.constant(1.0, x.dtype), apply(g, "Erf", x))


@converter("aten::special_ndtr")
def ndtr(g: Builder, self: Value) -> Value:
    """aten::special_ndtr(Tensor self) -> Tensor"""
    half = g.op("Mul", apply(g, "Erf", g.op("Mul", floating(g, self), math.sqrt(0.5))), 0.5)
    return g.op("Add", half, 0.5)


@converter("aten::lgamma", "aten::special_gammaln")
def lgamma(g: Builder, self: Value) -> Value:
    """aten::lgamma(Tensor self) -> Tensor

    Stirling's series at a shifted argument; below one half by reflection.
    """
    x = floating(g, self)
    low = g.op("Less", x, 0.5)
    above = g.op("Where", low, g.op("Sub", g.constant(1.0, x.dtype), x), x)
    raised = g.op("Add", above, float(GAMMA_SHIFT))
    inverse = g.op("Reciprocal", raised)
    series = polynomial(g, g.op("Mul", inverse, inverse), [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188])
    main = g.op("Mul", g.op("Sub", raised, 0.5), g.op("Sub", g.op("Log", raised), 1.0))
    main = g.op("Add", main, 0.5 * math.log(2 * math.pi) - 0.5)
    total = g.op("Add", main, g.op("Mul", series, inverse))
    value = g.op("Sub", total, _over_steps(g, emit.clip(g, above, None, HUGE), "Log"))
    sine = g.op("Abs", g.op("Sin", turns_to_angle(g, x)))
    reflected = g.op("Sub", g.op("Sub", g.constant(math.log(math.pi), x.dtype), g.op("Log", sine)), value)
    pole = g.op("And", g.op("Less", x, 0.5), emit.equal(g, g.op("Floor", x), x))
    return g.op("Where", pole, g.constant(math.inf, x.dtype), g.op("Where", low, reflected, value))


@converter("aten::digamma", "aten::special_digamma", "aten::special_psi")
def digamma(g: Builder, self: Value) -> Value:
    """aten::digamma(Tensor self) -> Tensor"""
    x = floating(g, self)
    low = g.op("Less", x, 0.5)
    above = g.op("Where", low, g.op("Sub", g.constant(1.0, x.dtype), x), x)
    raised = g.op("Add", above, float(GAMMA_SHIFT))
    inverse = g.op("Reciprocal", raised)
    square = g.op("Mul", inverse, inverse)
    series = polynomial(g, square, [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132])
    main = g.op("Sub", g.op("Log", raised), g.op("Mul", inverse, 0.5))
    value = g.op("Sub", g.op("Sub", main, g.op("Mul", series, square)), _over_steps(g, above, "Reciprocal"))
    angle = turns_to_angle(g, x)
    reflected = g.op("Sub", value, g.op("Mul", g.op("Div", g.op("Cos", angle), g.op("Sin", angle)), math.pi))
    pole = g.op("And", g.op("Less", x, 0.0), emit.equal(g, angle, 0.0))
    return g.op("Where", pole, g.constant(math.nan, x.dtype), g.op("Where", low, reflected, value))


def turns_to_angle(g: Builder, x: Value) -> Value:
    """pi times the fraction of x: pi times its integer part would not be exact."""
    return g.op("Mul", g.op("Sub", x, emit.round_(g, x)), math.pi)


def polynomial(g: Builder, x: Value, coefficients: list[float]) -> Value:
    result = g.op("Mul", x, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        result = g.op("Mul", g.op("Add", result, coefficient), x)
    return g.op("Add", result, coefficients[0])


def _over_steps(g: Builder, x: Value, op: str) -> Value:
    """The sum of a function over x, x + 1, … up to the shift."""
    rank = x.rank
    steps = torch.arange(GAMMA_SHIFT, dtype=x.dtype)
    spread = g.op("Add", emit.unsqueeze(g, x, [rank]), g.constant(steps))
    return emit.reduce(g, "ReduceSum", g.op(op, spread), [rank], False)
