"""The zeta function, polygamma functions, and the incomplete gamma functions."""

from __future__ import annotations

import math

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.loops import UNBOUNDED, Step, loop
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.elementwise.unary import GAMMA_SHIFT, digamma, floating, lgamma, polynomial, turns_to_angle

# B(2j) / (2j)! for j = 1, 2, ...: the factors of the Euler-Maclaurin formula.
BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
# The Euler-Maclaurin formula starts this much above the exponent, up to the exponent 100.
ZETA_START = 9.0
LARGEST_EXPONENT = 100.0
# For this exponent and larger ones, terms above the start are negligible.
HUGE_EXPONENT = 1e6
MAX_TERMS = 100_000
PRECISION = {torch.float32: 1e-9, torch.float64: 1e-15}


def _any(g: Builder, condition: Value) -> Value:
    """Whether the condition holds for any element; false for an empty tensor."""
    return g.op("Greater", emit.reduce(g, "ReduceSum", g.cast(condition, torch.int64), None, keepdims=False), 0)


def hurwitz(g: Builder, exponent: Value, start: Value) -> Value:
    """The sum of (start + k) ** -exponent over all k from 0 on: the first terms in a loop, the rest as an integral."""
    dtype, shape = start.dtype, g.outputs[0].shape
    whole = emit.equal(g, g.op("Floor", start), start)
    pole = g.op("And", g.op("Not", g.op("Greater", start, 0)), whole)
    safe = emit.expand(g, g.op("Where", pole, g.constant(1, dtype), start), shape)
    limit = g.op("Add", emit.clip(g, exponent, None, LARGEST_EXPONENT), ZETA_START)
    power = g.op("Neg", exponent)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        argument, total = states
        low = g.op("Less", argument, limit)
        term = g.op("Where", low, g.op("Pow", argument, power), g.constant(0, dtype))
        after = g.op("Add", argument, g.cast(low, dtype))
        return Step([after, g.op("Add", total, term)], goes_on=_any(g, g.op("Less", after, limit)))

    (argument, total), _ = loop(g, UNBOUNDED, [safe, emit.filled(g, shape, 0, dtype)], step)
    result = g.op("Add", total, _rest_of_zeta(g, exponent, argument, g.op("Pow", argument, power)))
    result = g.op("Where", pole, g.constant(math.inf, dtype), result)
    broken = g.op("Not", emit.equal(g, g.op("Floor", exponent), exponent))
    below = g.op("And", g.op("Not", g.op("Greater", start, 0)), g.op("And", broken, g.op("Not", whole)))
    result = g.op("Where", g.op("Or", below, g.op("Less", exponent, 1)), g.constant(math.nan, dtype), result)
    return g.op("Where", emit.equal(g, exponent, 1), g.constant(math.inf, dtype), result)


def _rest_of_zeta(g: Builder, exponent: Value, argument: Value, term: Value) -> Value:
    """The terms from ``argument`` on: the integral, half of the first term, and the corrections by derivatives."""
    exponent = emit.clip(g, exponent, None, HUGE_EXPONENT)
    integral = g.op("Div", g.op("Mul", term, argument), g.op("Sub", exponent, 1))
    result = g.op("Add", integral, g.op("Mul", term, 0.5))
    factor = g.op("Div", g.op("Mul", term, exponent), argument)
    square = g.op("Mul", argument, argument)
    for j, number in enumerate(BERNOULLI):
        if j:
            rising = g.op("Mul", g.op("Add", exponent, 2.0 * j - 1), g.op("Add", exponent, 2.0 * j))
            factor = g.op("Div", g.op("Mul", factor, rising), square)
        result = g.op("Add", result, g.op("Mul", factor, number))
    return result


@converter("aten::special_zeta")
def zeta(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::special_zeta(Tensor self, Tensor other) -> Tensor

    In double precision: for negative arguments large terms cancel each other.
    """
    return hurwitz(g, g.cast(self, torch.float64), g.cast(other, torch.float64))


@converter("aten::polygamma", "aten::special_polygamma")
def polygamma(g: Builder, n: int, self: Value) -> Value:
    """aten::polygamma(int n, Tensor self) -> Tensor"""
    if n < 2:
        return trigamma(g, floating(g, self)) if n else digamma(g, self)
    size = float(math.factorial(n)) if n <= 170 else math.inf
    sums = hurwitz(g, g.constant(float(n + 1), torch.float64), g.cast(self, torch.float64))
    return g.op("Mul", sums, size if n % 2 else -size)


def trigamma(g: Builder, x: Value) -> Value:
    """The asymptotic series at a shifted argument; below one half by reflection."""
    low = g.op("Less", x, 0.5)
    above = g.op("Where", low, g.op("Sub", g.constant(1, x.dtype), x), x)
    inverse = g.op("Reciprocal", g.op("Add", above, float(GAMMA_SHIFT)))
    series = polynomial(g, g.op("Mul", inverse, inverse), [1.0, 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66])
    far = g.op("Mul", g.op("Add", series, g.op("Mul", inverse, 0.5)), inverse)
    steps = g.op("Add", emit.unsqueeze(g, above, [x.rank]), g.constant(torch.arange(GAMMA_SHIFT), x.dtype))
    near = emit.reduce(g, "ReduceSumSquare", g.op("Reciprocal", steps), [x.rank], keepdims=False)
    value = g.op("Add", near, far)
    ratio = g.op("Div", g.constant(math.pi, x.dtype), g.op("Sin", turns_to_angle(g, x)))
    return g.op("Where", low, g.op("Sub", g.op("Mul", ratio, ratio), value), value)


# Incomplete gamma functions


def _incomplete(upper: bool) -> Converter:
    def convert(g: Builder, self: Value, other: Value) -> Value:
        """aten::igamma(Tensor self, Tensor other) -> Tensor

        In double precision: the powers in it would lose most digits of single precision.
        """
        dtype = torch.float64
        shape = g.outputs[0].shape
        a, x = (emit.expand(g, g.cast(value, dtype), shape) for value in (self, other))
        zero, one = g.constant(0, dtype), g.constant(1, dtype)
        limit = torch.finfo(torch.float32).max
        inside = g.op("And", _between(g, a, limit), _between(g, x, limit))
        safe_a, safe_x = (g.op("Where", inside, value, one) for value in (a, x))
        near = emit.less_or_equal(g, safe_x, g.op("Add", safe_a, 1))
        lower, rest = _sums(g, safe_a, safe_x, near, PRECISION[wide(g.outputs[0].dtype)])
        lower, rest = (g.op("Sub", one, lower), rest) if upper else (lower, g.op("Sub", one, rest))
        value = g.op("Where", near, lower, rest)
        return g.op("Where", inside, value, _at_ends(g, a, x, (one, zero) if upper else (zero, one), limit))

    return convert


def _between(g: Builder, value: Value, limit: float) -> Value:
    return g.op("And", g.op("Greater", value, 0), g.op("Less", value, limit))


def _at_ends(g: Builder, a: Value, x: Value, ends: tuple[Value, Value], limit: float) -> Value:
    """The values for zero, infinite or negative arguments, in the order of torch's checks."""
    beginning, end = ends
    nan = g.constant(math.nan, a.dtype)
    endless = g.op("Greater", x, limit)
    result = g.op("Where", endless, end, nan)
    result = g.op("Where", g.op("Greater", a, limit), g.op("Where", endless, nan, beginning), result)
    result = g.op("Where", emit.equal(g, x, 0), beginning, result)
    result = g.op("Where", emit.equal(g, a, 0), g.op("Where", g.op("Greater", x, 0), end, nan), result)
    return g.op("Where", g.op("Or", g.op("Less", a, 0), g.op("Less", x, 0)), nan, result)


def _sums(g: Builder, a: Value, x: Value, near: Value, precision: float) -> tuple[Value, Value]:
    """The lower function by its series for small x, the upper one by its continued fraction for large x."""
    one, shape = g.constant(1, a.dtype), g.outputs[0].shape
    edge = g.op("Add", a, 1)
    series_x, fraction_x = g.op("Where", near, x, edge), g.op("Where", near, edge, x)
    power = g.op("Sub", g.op("Sub", g.op("Mul", a, g.op("Log", x)), x), lgamma(g, a))
    weight = g.op("Exp", power)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        term, total, over, under, value = states
        count = g.op("Add", g.cast(iteration, a.dtype), 1)
        term = g.op("Mul", term, g.op("Div", series_x, g.op("Add", a, count)))
        total = g.op("Add", total, term)
        top = g.op("Mul", count, g.op("Sub", a, count))
        base = g.op("Add", g.op("Sub", g.op("Add", fraction_x, 1), a), g.op("Mul", count, 2))
        under = g.op("Reciprocal", g.op("Add", g.op("Mul", top, under), base))
        over = g.op("Add", base, g.op("Div", top, over))
        change = g.op("Mul", under, over)
        value = g.op("Mul", value, change)
        open_series = g.op("Greater", term, g.op("Mul", total, precision))
        open_fraction = g.op("Greater", g.op("Abs", g.op("Sub", change, 1)), precision)
        return Step([term, total, over, under, value], goes_on=_any(g, g.op("Or", open_series, open_fraction)))

    ones = emit.filled(g, shape, 1, a.dtype)
    first = g.op("Reciprocal", g.op("Sub", g.op("Add", fraction_x, one), a))
    huge = emit.filled(g, shape, 1e300, a.dtype)
    (_, total, _, _, value), _ = loop(g, MAX_TERMS, [ones, ones, huge, first, first], step)
    return g.op("Div", g.op("Mul", total, weight), a), g.op("Mul", value, weight)


INCOMPLETE = entries(
    _incomplete,
    {
        "aten::igamma": False,
        "aten::special_gammainc": False,
        "aten::igammac": True,
        "aten::special_gammaincc": True,
    },
)
