"""Orthogonal polynomials, by their recurrences: a Loop up to the highest degree in the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type, wide
from onnxport.lower.loops import Step, loop
from onnxport.lower.registry import Converter, entries
from onnxport.lower.value import Operand, Value

# The next polynomial, from the argument, the last degree as a float, the last polynomial and the one before.
Next = Callable[[Builder, Value, Value, Value, Value], Value]


@dataclass(frozen=True)
class Family:
    """A family that starts with 1 and ``slope`` x + ``offset``."""

    slope: float
    offset: float
    next: Next
    shifted: bool = False


def _chebyshev(g: Builder, x: Value, degree: Value, last: Value, before: Value) -> Value:
    return g.op("Sub", g.op("Mul", g.op("Add", x, x), last), before)


def _hermite_h(g: Builder, x: Value, degree: Value, last: Value, before: Value) -> Value:
    back = g.op("Mul", g.op("Mul", degree, 2), before)
    return g.op("Sub", g.op("Mul", g.op("Add", x, x), last), back)


def _hermite_he(g: Builder, x: Value, degree: Value, last: Value, before: Value) -> Value:
    return g.op("Sub", g.op("Mul", x, last), g.op("Mul", degree, before))


def _laguerre(g: Builder, x: Value, degree: Value, last: Value, before: Value) -> Value:
    factor = g.op("Sub", g.op("Add", g.op("Mul", degree, 2), 1), x)
    total = g.op("Sub", g.op("Mul", factor, last), g.op("Mul", degree, before))
    return g.op("Div", total, g.op("Add", degree, 1))


def _legendre(g: Builder, x: Value, degree: Value, last: Value, before: Value) -> Value:
    factor = g.op("Mul", g.op("Add", g.op("Mul", degree, 2), 1), x)
    total = g.op("Sub", g.op("Mul", factor, last), g.op("Mul", degree, before))
    return g.op("Div", total, g.op("Add", degree, 1))


FAMILIES = {
    "chebyshev_polynomial_t": Family(1, 0, _chebyshev),
    "chebyshev_polynomial_u": Family(2, 0, _chebyshev),
    "chebyshev_polynomial_v": Family(2, -1, _chebyshev),
    "chebyshev_polynomial_w": Family(2, 1, _chebyshev),
    "shifted_chebyshev_polynomial_t": Family(1, 0, _chebyshev, shifted=True),
    "shifted_chebyshev_polynomial_u": Family(2, 0, _chebyshev, shifted=True),
    "shifted_chebyshev_polynomial_v": Family(2, -1, _chebyshev, shifted=True),
    "shifted_chebyshev_polynomial_w": Family(2, 1, _chebyshev, shifted=True),
    "hermite_polynomial_h": Family(2, 0, _hermite_h),
    "hermite_polynomial_he": Family(1, 0, _hermite_he),
    "laguerre_polynomial_l": Family(-1, 1, _laguerre),
    "legendre_polynomial_p": Family(1, 0, _legendre),
}


def _polynomial(family: Family) -> Converter:
    def convert(g: Builder, x: Operand, n: Operand) -> Value:
        """aten::special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor"""
        source = g.cast(x, wide(float_type(x, n)))
        if family.shifted:
            source = g.op("Sub", g.op("Add", source, source), 1)
        if not isinstance(n, Value):
            return _of_degree(g, family, source, int(n))
        return _of_degrees(g, family, source, g.cast(n, torch.int64))

    return convert


def _first(g: Builder, family: Family, x: Value) -> Value:
    """The polynomial of degree 1."""
    scaled = x if family.slope == 1 else g.op("Mul", x, family.slope)
    return scaled if family.offset == 0 else g.op("Add", scaled, family.offset)


def _of_degree(g: Builder, family: Family, x: Value, degree: int) -> Value:
    """A constant degree."""
    shape = g.outputs[0].shape
    if degree < 1:
        return emit.filled(g, shape, float(degree == 0), x.dtype)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        last, before = states
        after = family.next(g, x, g.cast(g.op("Add", iteration, 1), x.dtype), last, before)
        return Step([after, g.op("Identity", last)])

    first = emit.expand(g, _first(g, family, x), shape)
    if degree == 1:
        return first
    (last, _), _ = loop(g, degree - 1, [first, emit.filled(g, shape, 1, x.dtype)], step)
    return last


def _of_degrees(g: Builder, family: Family, x: Value, degrees: Value) -> Value:
    """A degree for each element: the recurrence runs to the highest, and each element stops at its own."""
    shape = g.outputs[0].shape

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        last, before = states
        reached = g.op("Add", iteration, 1)
        after = family.next(g, x, g.cast(reached, x.dtype), last, before)
        goes_on = g.op("Less", reached, degrees)
        return Step([g.op("Where", goes_on, after, last), g.op("Where", goes_on, last, before)])

    states = [emit.expand(g, _first(g, family, x), shape), emit.filled(g, shape, 1, x.dtype)]
    # The maximum of an empty tensor is the lowest number.
    highest = emit.maximum(g, emit.reduce(g, "ReduceMax", degrees, None, keepdims=False), g.constant(1, torch.int64))
    (last, _), _ = loop(g, g.op("Sub", highest, 1), states, step)
    low = g.cast(g.op("Equal", degrees, 0), x.dtype)
    return g.op("Where", g.op("Less", degrees, 1), low, last)


POLYNOMIALS = entries(_polynomial, {f"aten::special_{name}": family for name, family in FAMILIES.items()})
