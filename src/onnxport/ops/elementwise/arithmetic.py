"""Arithmetic on two tensors or a tensor and a number."""

from __future__ import annotations

import math

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type, result_type, wide
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Number, Operand, Value
from onnxport.ops.elementwise.comparison import signbit
from onnxport.ops.elementwise.division import is_non_negative
from onnxport.ops.elementwise.unary import arctangent, logarithm_of_one_plus


def floats(g: Builder, *operands: Operand) -> list[Value]:
    """The operands as floats, half precision as single; for computations in several steps."""
    return g.promoted(*operands, dtype=wide(float_type(*operands)))


@converter("aten::add")
def add(g: Builder, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = g.promoted(self, other)
    if left.dtype == torch.bool:
        return g.op("Or", left, _scaled(g, right, alpha))
    return g.op("Sub", left, right) if alpha == -1 else g.op("Add", left, _scaled(g, right, alpha))


@converter("aten::sub", "aten::subtract")
def sub(g: Builder, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    """aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = g.promoted(self, other)
    return g.op("Add", left, right) if alpha == -1 else g.op("Sub", left, _scaled(g, right, alpha))


@converter("aten::rsub")
def rsub(g: Builder, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    """aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return sub(g, other, self, alpha)


def _scaled(g: Builder, value: Value, alpha: Operand) -> Value:
    if not isinstance(alpha, Value) and alpha == 1:
        return value
    return g.op("And" if value.dtype == torch.bool else "Mul", value, g.cast(alpha, value.dtype))


@converter("aten::mul", "aten::multiply")
def mul(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    left, right = g.promoted(self, other)
    return g.op("And" if left.dtype == torch.bool else "Mul", left, right)


@converter("aten::square")
def square(g: Builder, self: Value) -> Value:
    """aten::square(Tensor self) -> Tensor"""
    wanted = g.cast(self, g.outputs[0].dtype)
    return g.op("Mul", wanted, wanted)


# Powers


@converter("aten::pow")
def pow(g: Builder, self: Operand, exponent: Operand) -> Value:
    """aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    dtype = result_type(self, exponent)
    if dtype.is_floating_point:
        return _float_power(g, g.cast(self, dtype), exponent)
    if isinstance(self, Value) and not isinstance(exponent, Value):
        return _integer_power(g, g.cast(self, dtype), int(exponent))
    base, power = g.promoted(self, exponent, dtype=torch.int64)
    if is_non_negative(exponent) or (not isinstance(self, Value) and self != 0):
        return g.op("Pow", base, power)
    # A negative power of 0 is the lowest integer in the runtime and 0 in torch: compute that of 1, minus 1.
    lost = g.cast(g.op("And", g.op("Less", power, 0), g.op("Equal", base, 0)), torch.int64)
    return g.op("Sub", g.op("Pow", g.op("Add", base, lost), power), lost)


@converter("aten::float_power")
def float_power(g: Builder, self: Operand, exponent: Operand) -> Value:
    """aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    return _float_power(g, g.cast(self, torch.float64), exponent)


def _float_power(g: Builder, base: Value, exponent: Operand) -> Value:
    if isinstance(exponent, Value) or exponent not in (0.5, -0.5, -1):
        return g.op("Pow", base, g.cast(exponent, base.dtype))
    if exponent == -1:
        return g.op("Reciprocal", base)
    root = g.op("Sqrt", base)
    return root if exponent > 0 else g.op("Div", g.constant(1.0, base.dtype), root)


def _integer_power(g: Builder, base: Value, exponent: int) -> Value:
    """By multiplication: the runtime's Pow of integers goes through floats and is not exact."""
    if exponent == 0:
        return emit.filled(g, base.shape or (), 1, base.dtype)
    result: Value | None = None
    while True:
        if exponent % 2:
            result = base if result is None else g.op("Mul", result, base)
        exponent //= 2
        if exponent == 0:
            assert result is not None
            return result
        base = g.op("Mul", base, base)


@converter("aten::ldexp")
def ldexp(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor"""
    left, right = floats(g, self, other)
    return g.op("Mul", left, g.op("Pow", g.constant(2.0, right.dtype), right))


# Several steps


@converter("aten::addcmul")
def addcmul(g: Builder, self: Value, tensor1: Value, tensor2: Value, value: Number = 1) -> Value:
    """aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    base, left, right = g.promoted(self, tensor1, tensor2)
    return g.op("Add", base, _scaled(g, g.op("Mul", left, right), value))


@converter("aten::addcdiv")
def addcdiv(g: Builder, self: Value, tensor1: Value, tensor2: Value, value: Number = 1) -> Value:
    """aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    base, left, right = floats(g, self, tensor1, tensor2)
    return g.op("Add", base, _scaled(g, g.op("Div", left, right), value))


@converter("aten::lerp")
def lerp(g: Builder, self: Value, end: Value, weight: Operand) -> Value:
    """aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    way = g.op("Sub", end, self)
    return g.op("Add", self, g.op("Mul", way, g.cast(weight, self.dtype)))


@converter("aten::hypot")
def hypot(g: Builder, self: Value, other: Value) -> Value:
    """aten::hypot(Tensor self, Tensor other) -> Tensor"""
    left, right = floats(g, self, other)
    return g.op("Sqrt", g.op("Add", g.op("Mul", left, left), g.op("Mul", right, right)))


@converter("aten::atan2", "aten::arctan2")
def atan2(g: Builder, self: Value, other: Value) -> Value:
    """aten::atan2(Tensor self, Tensor other) -> Tensor"""
    y, x = floats(g, self, other)
    slope = g.op("Where", emit.equal(g, y, 0.0), g.constant(0.0, y.dtype), arctangent(g, g.op("Div", y, x)))
    turn = g.op("Where", g.op("Less", y, 0.0), g.constant(-math.pi, y.dtype), g.constant(math.pi, y.dtype))
    return g.op("Where", g.op("Less", x, 0.0), g.op("Add", slope, turn), slope)


@converter("aten::angle")
def angle(g: Builder, self: Value) -> Value:
    """aten::angle(Tensor self) -> Tensor"""
    turned = g.op("Mul", g.cast(g.op("Less", self, 0), g.outputs[0].dtype), math.pi)
    return emit.where(g, emit.is_nan(g, self), self, turned) if self.is_float else turned


@converter("aten::copysign")
def copysign(g: Builder, self: Value, other: Operand) -> Value:
    """aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    left, right = g.promoted(self, other, dtype=float_type(self, other))
    size = g.op("Abs", left)
    if not isinstance(other, Value):
        return g.op("Neg", size) if math.copysign(1.0, other) < 0 else size
    return g.op("Where", signbit(g, right), g.op("Neg", size), size)


def _log_of_sum(base: float) -> Converter:
    """The larger operand, and the logarithm of the factor that the other one adds."""

    def convert(g: Builder, self: Value, other: Value) -> Value:
        left, right = floats(g, self, other)
        distance = g.op("Neg", g.op("Abs", g.op("Sub", left, right)))
        below = g.op("Exp", distance) if base == math.e else g.op("Pow", g.constant(base, left.dtype), distance)
        more = logarithm_of_one_plus(g, below)
        more = more if base == math.e else g.op("Div", more, math.log(base))
        total = g.op("Add", emit.maximum(g, left, right), more)
        # The difference of two equal infinities is 0 here.
        return g.op("Where", emit.equal(g, left, right), g.op("Add", left, math.log(2, base)), total)

    return convert


LOGS_OF_SUMS = entries(_log_of_sum, {"aten::logaddexp": math.e, "aten::logaddexp2": 2.0})


@converter("aten::xlogy", "aten::special_xlogy")
def xlogy(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    factor, argument = floats(g, self, other)
    return _times_unless_zero(g, factor, g.op("Log", argument), argument)


@converter("aten::special_xlog1py")
def xlog1py(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::special_xlog1py(Tensor self, Tensor other) -> Tensor"""
    factor, argument = floats(g, self, other)
    return _times_unless_zero(g, factor, logarithm_of_one_plus(g, argument), argument)


def _times_unless_zero(g: Builder, factor: Value, logarithm: Value, argument: Value) -> Value:
    """Zero times anything is zero, except NaN."""
    zero = g.op("And", emit.equal(g, factor, 0.0), g.op("Not", emit.is_nan(g, argument)))
    return g.op("Where", zero, g.constant(0.0, factor.dtype), g.op("Mul", factor, logarithm))


@converter("aten::heaviside")
def heaviside(g: Builder, self: Value, values: Value) -> Value:
    """aten::heaviside(Tensor self, Tensor values) -> Tensor"""
    step = g.cast(g.op("Greater", self, 0), self.dtype)
    return g.op("Where", emit.equal(g, self, 0), values, step)
