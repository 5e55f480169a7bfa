"""Arithmetic on two tensors or a tensor and a number."""

from __future__ import annotations

import math

import torch

from onnxport.graph import ir as captured
from onnxport.graph.ir import Node
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type, result_type, wide
from onnxport.lower.nan import may_be_nan
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Number, Operand, Value
from onnxport.ops.elementwise.comparison import signbit
from onnxport.ops.elementwise.unary import arctangent, logarithm_of_one_plus, truncated

FIRST_MOD = 10


def floats(g: Builder, *operands: Operand) -> list[Value]:
    """The operands as floats, half precision as single: for what takes several steps."""
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


# Division and remainders


@converter("aten::div", "aten::divide", "aten::true_divide")
def div(g: Builder, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    """aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    if rounding_mode == "floor":
        return floor_divide(g, self, other)
    if rounding_mode == "trunc":
        left, right = g.promoted(self, other, dtype=wide(result_type(self, other)))
        quotient = g.op("Div", left, right)
        return truncated(g, quotient) if quotient.is_float else quotient
    return g.op("Div", *g.promoted(self, other, dtype=float_type(self, other)))


@converter("aten::floor_divide")
def floor_divide(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::floor_divide(Tensor self, Tensor other) -> Tensor"""
    dtype = result_type(self, other)
    if not dtype.is_floating_point:
        return _floor_divide_integers(g, self, other, dtype)
    if _is_power_of_two(other):
        return g.op("Floor", g.op("Div", *g.promoted(self, other, dtype=wide(dtype))))
    left, right = _for_modulo(g, self, other, dtype)
    # A quotient just below a whole number may round up to it: torch divides what the remainder leaves.
    rest = _fmod(g, left, right)
    whole = emit.round_(g, g.op("Div", g.op("Sub", left, rest), right))
    whole = g.op("Where", _has_other_sign(g, rest, right, other), g.op("Sub", whole, 1.0), whole)
    if not isinstance(other, Value) and other != 0:
        return whole
    return g.op("Where", emit.equal(g, right, 0.0), g.op("Div", left, right), whole)


def _floor_divide_integers(g: Builder, self: Operand, other: Operand, dtype: torch.dtype) -> Value:
    """ONNX's Div of integers cuts towards zero."""
    if dtype == torch.uint8 or (is_non_negative(self) and is_non_negative(other)):
        return g.op("Div", *g.promoted(self, other))
    # In a small type, taking the remainder away could pass its lower end.
    left, right = g.promoted(self, other, dtype=torch.int64 if dtype == torch.int64 else torch.int32)
    if g.opset >= 10:
        return g.op("Div", g.op("Sub", left, g.op("Mod", left, right)), right)
    quotient = g.op("Div", left, right)
    rest = g.op("Sub", left, g.op("Mul", quotient, right))
    opposite = g.op("Xor", g.op("Less", rest, 0), g.op("Less", right, 0))
    too_large = g.op("And", opposite, g.op("Not", g.op("Equal", rest, 0)))
    return g.op("Sub", quotient, g.cast(too_large, quotient.dtype))


def is_non_negative(operand: Operand) -> bool:
    """Whether an integer is at least 0 whatever the sizes are: a size, or sums, products and quotients of such."""
    if not isinstance(operand, Value):
        return operand >= 0
    if operand.data is not None:
        return bool((operand.data >= 0).all())
    return operand.origin is not None and _gives_non_negative(operand.origin)


def _gives_non_negative(node: Node) -> bool:
    if node.op in ("aten::size", "aten::numel"):
        return True
    if node.op not in ("aten::add", "aten::mul", "aten::floor_divide", "aten::Int", "aten::ScalarImplicit",
                       "prim::NumToTensor"):  # fmt: skip
        return False
    return all(_argument_non_negative(argument) for argument in node.inputs.values() if argument is not None)


def _argument_non_negative(argument: captured.Argument) -> bool:
    if not isinstance(argument, captured.Value):
        return isinstance(argument, (int, float)) and argument >= 0
    if argument.data is not None:
        return bool((argument.data >= 0).all())
    return argument.node is not None and _gives_non_negative(argument.node)


def _is_power_of_two(operand: Operand) -> bool:
    return not isinstance(operand, Value) and operand != 0 and math.frexp(abs(operand))[0] == 0.5


@converter("aten::remainder")
def remainder(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = result_type(self, other)
    if g.opset < FIRST_MOD and dtype.is_floating_point and _is_power_of_two(other):
        left, right = g.promoted(self, other, dtype=wide(dtype))
        return g.op("Sub", left, g.op("Mul", g.op("Floor", g.op("Div", left, right)), right))
    left, right = _for_modulo(g, self, other, dtype)
    if dtype.is_floating_point:
        rest = _fmod(g, left, right)
        return g.op("Where", _has_other_sign(g, rest, right, other), g.op("Add", rest, right), rest)
    if g.opset >= 10:
        return g.op("Mod", left, right)
    return g.op("Sub", left, g.op("Mul", _floor_divide_integers(g, self, other, dtype), right))


def _has_other_sign(g: Builder, rest: Value, right: Value, divisor: Operand) -> Value:
    """Whether the rest that fmod leaves, which has the dividend's sign, has not the divisor's."""
    if isinstance(divisor, Value):
        return g.op("Less", g.op("Mul", g.op("Sign", rest), right), 0.0)
    return g.op("Less" if divisor >= 0 else "Greater", rest, 0.0)


@converter("aten::fmod")
def fmod(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _fmod(g, *_for_modulo(g, self, other, result_type(self, other)))


def _for_modulo(g: Builder, self: Operand, other: Operand, dtype: torch.dtype) -> list[Value]:
    """The operands in the dtype to compute remainders in. Without Mod, floats are divided in double precision.

    There, what is left of two floats of single precision is exact as long as their quotient is below 2**28.
    """
    operands = g.promoted(self, other, dtype=wide(dtype))
    if g.opset >= FIRST_MOD or not dtype.is_floating_point:
        return operands
    if dtype == torch.float64:
        g.require(FIRST_MOD, "a remainder in double precision")
    return [g.cast(operand, torch.float64) for operand in operands]


def _fmod(g: Builder, left: Value, right: Value) -> Value:
    """Mod is there from opset 10. Before, the remainder is what a division leaves."""
    if g.opset >= FIRST_MOD:
        return g.op("Mod", left, right, fmod=1)
    quotient = g.op("Div", left, right)
    rest = g.op("Sub", left, g.op("Mul", truncated(g, quotient) if left.is_float else quotient, right))
    if not left.is_float or (right.data is not None and bool(right.data.isfinite().all())):
        return rest
    # No part of an infinite divisor can be taken away.
    return g.op("Where", g.op("Less", g.op("Abs", left), g.op("Abs", right)), left, rest)


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
    # Of a negative power of 0 the runtime makes the lowest integer, torch 0: it is that of 1, less 1.
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
    return g.op("Sqrt", base) if exponent > 0 else g.op("Reciprocal", g.op("Sqrt", base))


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


# Bounds


def _extremum(larger: bool) -> Converter:
    def convert(g: Builder, self: Operand, other: Operand) -> Value:
        left, right = g.promoted(self, other)
        return emit.maximum(g, left, right) if larger else emit.minimum(g, left, right)

    return convert


def _extremum_but_nan(larger: bool) -> Converter:
    def convert(g: Builder, self: Value, other: Value) -> Value:
        left, right = g.promoted(self, other)
        result = emit.maximum(g, left, right) if larger else emit.minimum(g, left, right)
        for value, other_value in ((right, left), (left, right)):
            if may_be_nan(value):
                result = g.op("Where", emit.is_nan(g, value), other_value, result)
        return result

    return convert


EXTREMA = entries(
    _extremum, {"aten::maximum": True, "aten::max.other": True, "aten::minimum": False, "aten::min.other": False}
)
EXTREMA_BUT_NAN = entries(_extremum_but_nan, {"aten::fmax": True, "aten::fmin": False})


@converter("aten::clamp", "aten::clip", "aten::clamp_min", "aten::clamp_max")
def clamp(g: Builder, self: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    """aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    dtype = result_type(self, *(bound for bound in (min, max) if bound is not None))
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (min, max)):
        return emit.filled(g, self.shape or (), math.nan, dtype)
    return emit.clip(g, g.cast(self, dtype), min, max)


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
    """The larger one and what the other adds to it."""

    def convert(g: Builder, self: Value, other: Value) -> Value:
        left, right = floats(g, self, other)
        distance = g.op("Neg", g.op("Abs", g.op("Sub", left, right)))
        below = g.op("Exp", distance) if base == math.e else g.op("Pow", g.constant(base, left.dtype), distance)
        more = logarithm_of_one_plus(g, below)
        more = more if base == math.e else g.op("Div", more, math.log(base))
        total = g.op("Add", emit.maximum(g, left, right), more)
        # Two infinities of one sign have no distance.
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
    """Zero times anything is zero, but for NaN."""
    zero = g.op("And", emit.equal(g, factor, 0.0), g.op("Not", emit.is_nan(g, argument)))
    return g.op("Where", zero, g.constant(0.0, factor.dtype), g.op("Mul", factor, logarithm))


@converter("aten::heaviside")
def heaviside(g: Builder, self: Value, values: Value) -> Value:
    """aten::heaviside(Tensor self, Tensor values) -> Tensor"""
    step = g.cast(g.op("Greater", self, 0), self.dtype)
    return g.op("Where", emit.equal(g, self, 0), values, step)
