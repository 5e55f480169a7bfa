"""Functions of complex numbers: exponentials, logarithms, powers, and functions composed of them."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

from onnxport.lower import complexes, emit
from onnxport.lower.builder import Builder
from onnxport.lower.complexes import Complex, both, from_parts
from onnxport.lower.registry import Entry, Kind
from onnxport.lower.value import Value
from onnxport.ops.complex.complex_arithmetic import (
    Number,
    added,
    div,
    for_complex,
    magnitude,
    real_dtype,
    reciprocal,
    times,
)
from onnxport.ops.elementwise.arithmetic import atan2
from onnxport.ops.elementwise.unary import apply

Function = Callable[[Builder, Complex], Complex]
# Higher powers are computed by logarithms.
MAX_FACTORS = 8


def exponential(g: Builder, x: Complex) -> Complex:
    size, angle = x.parts(g)
    length = g.op("Exp", size)
    return from_parts(g, g.op("Mul", length, g.op("Cos", angle)), g.op("Mul", length, g.op("Sin", angle)))


def logarithm(g: Builder, x: Complex) -> Complex:
    first, second = x.parts(g)
    return from_parts(g, g.op("Log", magnitude(g, x)), atan2(g, second, first))


def _scaled(function: Function, before: complex = 1, after: complex = 1) -> Function:
    def convert(g: Builder, x: Complex) -> Complex:
        result = function(g, _times(g, x, before))
        return _times(g, result, after)

    return convert


def _times(g: Builder, x: Complex, factor: complex) -> Complex:
    """Multiply by a constant; a multiple of 1 or i only scales or swaps the parts."""
    if factor == 1:
        return x
    if factor == 1j:
        first, second = x.parts(g)
        return from_parts(g, g.op("Neg", second), first)
    if factor == -1j:
        first, second = x.parts(g)
        return from_parts(g, second, g.op("Neg", first))
    return times(g, x, factor.real if isinstance(factor, complex) and not factor.imag else factor)


def square_root(g: Builder, x: Complex) -> Complex:
    """By half the angle and the square root of the absolute value: the form with differences loses digits."""
    first, second = x.parts(g)
    length, angle = g.op("Sqrt", magnitude(g, x)), g.op("Mul", atan2(g, second, first), 0.5)
    return from_parts(g, g.op("Mul", length, g.op("Cos", angle)), g.op("Mul", length, g.op("Sin", angle)))


def sine(g: Builder, x: Complex) -> Complex:
    a, b = x.parts(g)
    first = g.op("Mul", g.op("Sin", a), apply(g, "Cosh", b))
    return from_parts(g, first, g.op("Mul", g.op("Cos", a), apply(g, "Sinh", b)))


def cosine(g: Builder, x: Complex) -> Complex:
    a, b = x.parts(g)
    first = g.op("Mul", g.op("Cos", a), apply(g, "Cosh", b))
    return from_parts(g, first, g.op("Neg", g.op("Mul", g.op("Sin", a), apply(g, "Sinh", b))))


def hyperbolic_tangent(g: Builder, x: Complex) -> Complex:
    """From the tangents of the parts, which do not overflow as sinh and cosh do."""
    a, b = x.parts(g)
    t, u = g.op("Tanh", a), apply(g, "Tan", b)
    squares = g.op("Mul", t, t), g.op("Mul", u, u)
    divisor = g.op("Add", g.op("Mul", *squares), 1.0)
    first = g.op("Mul", t, g.op("Add", squares[1], 1.0))
    second = g.op("Mul", u, g.op("Sub", g.constant(1.0, t.dtype), squares[0]))
    return from_parts(g, g.op("Div", first, divisor), g.op("Div", second, divisor))


def sigmoid(g: Builder, x: Complex) -> Complex:
    """(1 + tanh(x / 2)) / 2"""
    first, second = hyperbolic_tangent(g, _times(g, x, 0.5)).parts(g)
    return from_parts(g, g.op("Mul", g.op("Add", first, 1.0), 0.5), g.op("Mul", second, 0.5))


def _inverse_hyperbolic_sine(g: Builder, x: Complex) -> Complex:
    """log(x + sqrt(x^2 + 1))"""
    return logarithm(g, added(g, x, square_root(g, added(g, times(g, x, x), 1.0))))


def _inverse_hyperbolic_cosine(g: Builder, x: Complex) -> Complex:
    """log(x + sqrt(x + 1) sqrt(x - 1))"""
    roots = times(g, square_root(g, added(g, x, 1.0)), square_root(g, added(g, x, -1.0)))
    return logarithm(g, added(g, x, roots))


def _inverse_hyperbolic_tangent(g: Builder, x: Complex) -> Complex:
    """(log(1 + x) - log(1 - x)) / 2"""
    difference = added(g, logarithm(g, added(g, x, 1.0)), logarithm(g, added(g, 1.0, x, "Sub")), "Sub")
    return _times(g, difference, 0.5)


def _arc_cosine(g: Builder, x: Complex) -> Complex:
    """pi / 2 - asin(x)"""
    return added(g, math.pi / 2, _scaled(_inverse_hyperbolic_sine, 1j, -1j)(g, x), "Sub")


def _entry(function: Function, *names: str) -> Entry:
    def convert(g: Builder, self: Value) -> Complex:
        return function(g, complexes.cast(g, self, g.outputs[0].dtype))

    return Entry(tuple(f"aten::{name}" for name in names), convert, Kind.COMPLEX)


FUNCTIONS = [
    _entry(exponential, "exp"),
    _entry(_scaled(exponential, math.log(2)), "exp2", "special_exp2"),
    _entry(lambda g, x: added(g, exponential(g, x), -1.0), "expm1", "special_expm1"),
    _entry(logarithm, "log"),
    _entry(_scaled(logarithm, 1, 1 / math.log(2)), "log2"),
    _entry(_scaled(logarithm, 1, 1 / math.log(10)), "log10"),
    _entry(lambda g, x: logarithm(g, added(g, x, 1.0)), "log1p", "special_log1p"),
    _entry(square_root, "sqrt"),
    _entry(lambda g, x: reciprocal(g, square_root(g, x)), "rsqrt"),
    _entry(sine, "sin"),
    _entry(cosine, "cos"),
    _entry(_scaled(hyperbolic_tangent, 1j, -1j), "tan"),
    _entry(_scaled(sine, 1j, -1j), "sinh"),
    _entry(_scaled(cosine, 1j), "cosh"),
    _entry(hyperbolic_tangent, "tanh"),
    _entry(sigmoid, "sigmoid", "special_expit"),
    _entry(lambda g, x: times(g, x, sigmoid(g, x)), "silu"),
    _entry(_scaled(_inverse_hyperbolic_sine, 1j, -1j), "asin", "arcsin"),
    _entry(_arc_cosine, "acos", "arccos"),
    _entry(_scaled(_inverse_hyperbolic_tangent, 1j, -1j), "atan", "arctan"),
    _entry(_inverse_hyperbolic_sine, "asinh", "arcsinh"),
    _entry(_inverse_hyperbolic_cosine, "acosh", "arccosh"),
    _entry(_inverse_hyperbolic_tangent, "atanh", "arctanh"),
]


@for_complex("aten::pow", "aten::float_power")
def pow_(g: Builder, self: Number, exponent: Number) -> Complex:
    """aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    dtype = g.outputs[0].dtype
    if isinstance(self, (int, float, complex)):
        return _power_of_number(g, complex(self), complexes.cast(g, exponent, dtype))
    base = complexes.cast(g, self, dtype)
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and abs(exponent) <= MAX_FACTORS:
        return _whole_power(g, base, int(exponent))
    if exponent == 0.5:
        return square_root(g, base)
    raised = exponential(g, times(g, logarithm(g, base), exponent))
    # The logarithm of zero is not finite: a power of zero is 0, or 1 if the exponent is 0.
    first, second = both(g, exponent, dtype.to_real())
    none = g.op("And", emit.equal(g, first, 0.0), emit.equal(g, second, 0.0))
    at_zero = g.cast(none, dtype.to_real())
    is_zero = emit.equal(g, magnitude(g, base), 0.0)
    real, imag = raised.parts(g)
    return from_parts(g, g.op("Where", is_zero, at_zero, real), g.op("Where", is_zero, complexes.zeros(g, imag), imag))


def _power_of_number(g: Builder, base: complex, exponent: Complex) -> Complex:
    if base == 0:
        g.unsupported("a power of the number 0 with a complex exponent")
    return exponential(g, times(g, exponent, cmath.log(base)))


def _whole_power(g: Builder, base: Complex, exponent: int) -> Complex:
    if exponent == 0:
        ones = emit.filled(g, base.shape or (), 1.0, real_dtype(g, base))
        return from_parts(g, ones, complexes.zeros(g, ones))
    result: Complex | None = None
    square, left = base, abs(exponent)
    while left:
        if left % 2:
            result = square if result is None else times(g, result, square)
        left //= 2
        square = times(g, square, square) if left else square
    assert result is not None
    return result if exponent > 0 else div(g, 1.0, result)
