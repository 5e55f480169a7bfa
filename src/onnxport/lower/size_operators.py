"""The operators of size expressions in ONNX: ints as int64, floats as float64, all 0-dim.

Each computes as Python does: ``//`` rounds down, ``%`` has the sign of the divisor, a half is rounded to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.graph.sizes.bounds import bounds, is_nonnegative
from onnxport.graph.sizes.expr import Operand, SizeExpr
from onnxport.graph.sizes.numeric import Kind
from onnxport.lower.emit import selection
from onnxport.lower.emit.axes import reduce
from onnxport.lower.value import Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

DTYPES: dict[Kind, torch.dtype] = {int: torch.int64, float: torch.float64, bool: torch.bool}
# The operators that need more than one node.
COSTS = {
    "floordiv": 3, "mod": 3, "ceil": 2, "floor": 2, "round": 2, "isqrt": 3, "log2": 6, "log10": 6, "bit_length": 4,
    "rshift": 3, "ne": 2, "pow": 3,
}  # fmt: skip
# Bits of numbers that a double represents exactly: ONNX Runtime sums integers in double precision.
BITS = 53


def emit(g: Builder, expr: SizeExpr, operands: Sequence[Value]) -> Value:
    """The value of an expression, from those of its operands."""
    return EMITTERS[expr.op](g, expr, *operands)


def cost_of(opset: int, expr: SizeExpr) -> int:
    """The approximate number of nodes for the operator of an expression."""
    cost = COSTS.get(expr.op, 1)
    if (expr.op == "floordiv" and all(map(is_nonnegative, expr.operands))) or (expr.op == "mod" and opset >= 10):
        cost = 1
    casts = [of for of in expr.operands if isinstance(of, SizeExpr) and expr.kind is float and of.kind is not float]
    return cost + len(casts)


def _same_type(g: Builder, expr: SizeExpr, *operands: Value) -> list[Value]:
    """The operands in the type of the result."""
    return [g.cast(operand, DTYPES[expr.kind]) for operand in operands]


def _plain(op: str) -> Callable[..., Value]:
    """An ONNX operator on operands of the type of its result."""
    return lambda g, expr, *operands: g.op(op, *_same_type(g, expr, *operands))


def _function(op: str) -> Callable[..., Value]:
    return lambda g, expr, x: g.op(op, g.cast(x, torch.float64))


# Division


def may_be_zero(expr: Operand) -> bool:
    low, high = bounds(expr)
    return low <= 0 <= high


def not_zero(g: Builder, x: Value) -> Value:
    """A divisor, or 1 if it is 0: the runtime raises an error at a division by 0 even if the result is not used."""
    return g.op("Add", x, g.cast(g.op("Equal", x, 0), torch.int64))


def _divided(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
    x, y = _same_type(g, expr, x, y)
    if expr.kind is float:
        return _divided_floats(g, x, y)[0]
    left, right = expr.operands
    if is_nonnegative(left) and is_nonnegative(right):
        return _towards_zero(g, x, y)
    return _rounded_down(g, x, y, right)


def _towards_zero(g: Builder, x: Value, y: Value) -> Value:
    """ONNX Runtime replaces (1 / y) * z by z / y, also for integers: so write 1 / y as 2 / (2 * y)."""
    if _is_one(x):
        return g.op("Div", g.constant(2, torch.int64), g.op("Mul", y, 2))
    return g.op("Div", x, y)


def _is_one(x: Value) -> bool:
    return x.data is not None and x.data.numel() == 1 and x.data.item() == 1


def _rounded_down(g: Builder, x: Value, y: Value, divisor: Operand) -> Value:
    """The quotient of integers rounded down; ONNX's Div rounds towards 0."""
    if g.opset >= 10:
        return g.op("Div", g.op("Sub", x, g.op("Mod", x, y)), y)
    quotient = _towards_zero(g, x, y)
    rest = g.op("Sub", x, g.op("Mul", quotient, y))
    if not is_nonnegative(divisor):
        rest = g.op("Mul", rest, y)
    return g.op("Sub", quotient, g.cast(g.op("Less", rest, 0), torch.int64))


def _remainder(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
    x, y = _same_type(g, expr, x, y)
    if expr.kind is float:
        return _divided_floats(g, x, y)[1]
    if g.opset >= 10:
        return g.op("Mod", x, y)
    return g.op("Sub", x, g.op("Mul", _divided(g, expr, x, y), y))


def _true_quotient(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
    """1 / y by Reciprocal: ONNX Runtime would replace (1 / y) * z by z / y, which is rounded only once."""
    x, y = _same_type(g, expr, x, y)
    return g.op("Reciprocal", y) if _is_one(x) else g.op("Div", x, y)


def _divided_floats(g: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder as in Python, from the remainder with the sign of the dividend."""
    if g.opset < 10:
        quotient = g.op("Floor", g.op("Div", x, y))
        return quotient, g.op("Sub", x, g.op("Mul", quotient, y))
    rest = g.op("Mod", x, y, fmod=1)
    other_sign = g.cast(g.op("Less", g.op("Mul", rest, y), 0), torch.float64)
    quotient = g.op("Sub", g.op("Div", g.op("Sub", x, rest), y), other_sign)
    return _nearest(g, quotient), g.op("Add", rest, g.op("Mul", y, other_sign))


# Rounding


def _nearest(g: Builder, x: Value) -> Value:
    """The nearest integer, as a float; a half is rounded to even. Round from opset 11."""
    if g.opset >= 11:
        return g.op("Round", x)
    floor = g.op("Floor", x)
    half = g.op("Mul", floor, 0.5)
    is_odd = g.cast(g.op("Less", g.op("Floor", half), half), torch.float64)
    # Round up from 0.5 on for an odd floor, above 0.5 for an even one.
    up = g.op("Greater", g.op("Add", g.op("Sub", x, floor), g.op("Mul", is_odd, 2.0**-53)), 0.5)
    return g.op("Add", floor, g.cast(up, torch.float64))


def _rounded(op: str) -> Callable[..., Value]:
    def rounded(g: Builder, expr: SizeExpr, x: Value) -> Value:
        return g.cast(g.op(op, x) if x.is_float else x, torch.int64)

    return rounded


def _truncated(g: Builder, expr: SizeExpr, x: Value) -> Value:
    return g.cast(x, torch.int64)


def _round(g: Builder, expr: SizeExpr, x: Value, digits: Value | None = None) -> Value:
    if digits is None:
        return g.cast(_nearest(g, x) if x.is_float else x, torch.int64)
    digits = expr.operands[1]
    if not isinstance(digits, int):
        g.unsupported("rounding to a number of digits that depends on a size")
    if not x.is_float and digits >= 0:
        return g.cast(x, torch.int64)
    scale = 10.0 ** abs(digits)
    before, after = ("Mul", "Div") if digits > 0 else ("Div", "Mul")
    rounded = g.op(after, _nearest(g, g.op(before, g.cast(x, torch.float64), scale)), scale)
    return g.cast(rounded, DTYPES[expr.kind])


# Roots, powers and logarithms


def _root(g: Builder, expr: SizeExpr, x: Value) -> Value:
    """Exact, because sizes have fewer than the 53 bits of a double, and the cast rounds down."""
    if not is_nonnegative(expr.operands[0]):
        x = _smaller_or_larger("max", g, x, g.constant(0, torch.int64))
    return g.cast(g.op("Sqrt", g.cast(x, torch.float64)), torch.int64)


def _power(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
    """Pow accepts integers from opset 12."""
    if expr.kind is int and g.opset >= 12:
        return g.op("Pow", *_same_type(g, expr, x, y))
    power = g.op("Pow", g.cast(x, torch.float64), g.cast(y, torch.float64))
    return g.cast(power, DTYPES[expr.kind])


def _logarithm(base: float) -> Callable[..., Value]:
    """log2 and log10, exact at the powers of the base as in Python."""

    def logarithm(g: Builder, expr: SizeExpr, x: Value) -> Value:
        x = g.cast(x, torch.float64)
        near = g.op("Div", g.op("Log", x), math.log(base))
        whole = g.op("Floor", g.op("Add", near, 0.5))
        is_power = selection.equal(g, g.op("Pow", g.constant(base, torch.float64), whole), x)
        return _chosen(g, float, is_power, whole, near)

    return logarithm


def _bit_length(g: Builder, expr: SizeExpr, x: Value) -> Value:
    """The bit length: how many of 0, 1, 3, 7, … are smaller than the number."""
    x = g.op("Abs", g.cast(x, torch.int64))
    above = g.op("Greater", x, g.constant([(1 << bit) - 1 for bit in range(BITS)], torch.int64))
    return reduce(g, "ReduceSum", g.cast(above, torch.int64), None, keepdims=False)


# Bits


def _left_shift(g: Builder, expr: SizeExpr, x: Value, count: Value) -> Value:
    return g.op("Mul", g.cast(x, torch.int64), _power_of_two(g, expr, count))


def _right_shift(g: Builder, expr: SizeExpr, x: Value, count: Value) -> Value:
    x, power = g.cast(x, torch.int64), _power_of_two(g, expr, count)
    return g.op("Div", x, power) if is_nonnegative(expr.operands[0]) else _rounded_down(g, x, power, 1)


def _power_of_two(g: Builder, expr: SizeExpr, count: Value) -> Value:
    known = expr.operands[1]
    if isinstance(known, int):
        return g.constant(1 << known, torch.int64)
    return g.cast(g.op("Pow", g.constant(2.0, torch.float64), g.cast(count, torch.float64)), torch.int64)


def _bitwise(op: str) -> Callable[..., Value]:
    """A logical operator for bools; a bitwise one, from opset 18, for integers."""

    def bitwise(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
        x, y = _same_type(g, expr, x, y)
        if expr.kind is bool:
            return g.op(op, x, y)
        return g.op(f"Bitwise{op}", x, y) if g.opset >= 18 else bit_by_bit(g, op, x, y)

    return bitwise


def bit_by_bit(g: Builder, op: str, x: Value, y: Value) -> Value:
    """Bitwise operators on vectors of bits; the last bit has a negative weight, as in two's complement."""
    weights = [1 << bit for bit in range(BITS)]
    powers = g.constant(weights, torch.int64)
    left, right = (_odd(g, _rounded_down(g, number, powers, 1)) for number in (x, y))
    both = g.op("Mul", left, right)
    if op != "And":
        both = g.op("Sub", g.op("Add", left, right), both if op == "Or" else g.op("Mul", both, 2))
    signed = g.constant([*weights[:-1], -weights[-1]], torch.int64)
    return reduce(g, "ReduceSum", g.op("Mul", both, signed), None, keepdims=False)


def _odd(g: Builder, x: Value) -> Value:
    return g.op("Sub", x, g.op("Mul", _rounded_down(g, x, g.constant(2, torch.int64), 2), 2))


# Comparisons and choices


def _comparison(compare: Callable[[Builder, Value, Value], Value]) -> Callable[..., Value]:
    def comparison(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
        dtype = torch.float64 if x.is_float or y.is_float else torch.int64
        return compare(g, g.cast(x, dtype), g.cast(y, dtype))

    return comparison


def _not(g: Builder, expr: SizeExpr, x: Value) -> Value:
    return g.op("Not", x) if x.dtype == torch.bool else selection.equal(g, x, 0)


def _where(g: Builder, expr: SizeExpr, condition: Value, x: Value, y: Value) -> Value:
    return _chosen(g, expr.kind, g.cast(condition, torch.bool), *_same_type(g, expr, x, y))


def _chosen(g: Builder, kind: Kind, condition: Value, x: Value, y: Value) -> Value:
    """Where from opset 9. Before, multiplication by the condition."""
    if kind is bool:
        return _chosen_truth(g, condition, x, y)
    if g.opset >= 9:
        return g.op("Where", condition, x, y)
    share = g.cast(condition, DTYPES[kind])
    return g.op("Add", g.op("Mul", share, x), g.op("Mul", g.op("Sub", g.constant(1, DTYPES[kind]), share), y))


def _chosen_truth(g: Builder, condition: Value, x: Value, y: Value) -> Value:
    """``condition and x or not condition and y``, without what constants decide."""
    known_x, known_y = (None if value.data is None else bool(value.data) for value in (x, y))
    if known_x is not None and known_x is known_y:
        return x
    if known_x is True:
        return condition if known_y is False else g.op("Or", condition, y)
    if known_y is False:
        return g.op("And", condition, x)
    otherwise = g.op("Not", condition)
    if known_x is False:
        return otherwise if known_y is True else g.op("And", otherwise, y)
    if known_y is True:
        return g.op("Or", otherwise, x)
    return g.op("Or", g.op("And", condition, x), g.op("And", otherwise, y))


def _extremum(op: str) -> Callable[..., Value]:
    def extremum(g: Builder, expr: SizeExpr, x: Value, y: Value) -> Value:
        x, y = _same_type(g, expr, x, y)
        if expr.kind is bool:
            return g.op("And" if op == "min" else "Or", x, y)
        return _smaller_or_larger(op, g, x, y)

    return extremum


def _smaller_or_larger(op: str, g: Builder, x: Value, y: Value) -> Value:
    """Min and Max accept integers from opset 12, and in ONNX Runtime doubles from opset 8."""
    if g.opset >= (8 if x.is_float else 12):
        return g.op(op.capitalize(), x, y)
    return _chosen(g, float if x.is_float else int, g.op("Less" if op == "min" else "Greater", x, y), x, y)


EMITTERS: dict[str, Callable[..., Value]] = {
    "add": _plain("Add"),
    "sub": _plain("Sub"),
    "mul": _plain("Mul"),
    "truediv": _true_quotient,
    "neg": _plain("Neg"),
    "abs": _plain("Abs"),
    "float": lambda g, expr, x: g.cast(x, torch.float64),
    "floordiv": _divided,
    "mod": _remainder,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "pow": _power,
    "ceil": _rounded("Ceil"),
    "floor": _rounded("Floor"),
    "trunc": _truncated,
    "round": _round,
    "isqrt": _root,
    "sqrt": _function("Sqrt"),
    "log": _function("Log"),
    "exp": _function("Exp"),
    "sin": _function("Sin"),
    "cos": _function("Cos"),
    "log2": _logarithm(2.0),
    "log10": _logarithm(10.0),
    "bit_length": _bit_length,
    "lshift": _left_shift,
    "rshift": _right_shift,
    "and": _bitwise("And"),
    "or": _bitwise("Or"),
    "xor": _bitwise("Xor"),
    "lt": _comparison(lambda g, x, y: g.op("Less", x, y)),
    "le": _comparison(selection.less_or_equal),
    "gt": _comparison(lambda g, x, y: g.op("Greater", x, y)),
    "ge": _comparison(selection.greater_or_equal),
    "eq": _comparison(selection.equal),
    "ne": _comparison(lambda g, x, y: g.op("Not", selection.equal(g, x, y))),
    "not": _not,
    "where": _where,
}
