"""Division and remainders.

The lowest integer divided by -1 overflows, which ends the runtime's process. torch's ``//`` returns that integer,
and its remainders are 0 (a division that rounds towards zero ends torch's process, too). A divisor that may be -1 is
replaced before the division.
"""

from __future__ import annotations

import math

import torch

from onnxport.graph import ir as captured
from onnxport.graph.ir import Node
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type, result_type, wide
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.lower.value_ranges import is_count
from onnxport.ops.elementwise.unary import truncated

FIRST_MOD = 10


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
    # A quotient just below an integer may round up to it: torch subtracts the remainder first.
    rest = _fmod(g, left, right)
    whole = emit.round_(g, g.op("Div", g.op("Sub", left, rest), right))
    whole = g.op("Where", _has_other_sign(g, rest, right, other), g.op("Sub", whole, 1.0), whole)
    if not isinstance(other, Value) and other != 0:
        return whole
    return g.op("Where", emit.equal(g, right, 0.0), g.op("Div", left, right), whole)


def _floor_divide_integers(g: Builder, self: Operand, other: Operand, dtype: torch.dtype) -> Value:
    """ONNX's Div of integers rounds towards zero."""
    if dtype == torch.uint8 or (is_non_negative(self) and is_non_negative(other)):
        return g.op("Div", *g.promoted(self, other))
    if _number(other) == -1:
        return g.op("Neg", g.cast(self, dtype))
    left, right = g.promoted(self, other, dtype=torch.int64)
    if dtype != torch.int64 and g.opset >= FIRST_MOD:
        # In a wider type, subtracting the remainder does not overflow.
        return g.op("Div", g.op("Sub", left, g.op("Mod", left, right)), right)
    left, right = _without_trap(g, left, right)
    quotient = g.op("Div", left, right)
    product = g.op("Mul", quotient, right)
    divisor = _number(right)
    if divisor is not None:
        too_large = g.op("Less" if divisor > 0 else "Greater", left, product)
    else:
        rest = g.op("Sub", left, product)
        opposite = g.op("Xor", g.op("Less", rest, 0), g.op("Less", right, 0))
        too_large = g.op("And", opposite, g.op("Not", g.op("Equal", rest, 0)))
    return g.op("Sub", quotient, g.cast(too_large, quotient.dtype))


def _without_trap(g: Builder, left: Value, right: Value) -> tuple[Value, Value]:
    """Operands with the same quotient and without a divisor -1: the negated dividend is divided by 1 instead."""
    if not _may_trap(g, right):
        return left, right
    turned = g.op("Equal", right, -1)
    return g.op("Where", turned, g.op("Neg", left), left), g.op("Where", turned, g.constant(1, right.dtype), right)


def _may_trap(g: Builder, divisor: Value) -> bool:
    """Whether an integer of 32 or 64 bits may be -1. Opsets 7 and 8 have no Where to replace it."""
    if divisor.dtype not in (torch.int32, torch.int64) or (g.opset < 9 and _number(divisor) is None):
        return False
    return not is_non_negative(divisor) and (divisor.data is None or bool((divisor.data == -1).any()))


def _number(operand: Operand) -> int | None:
    """The integer, if the operand is a known one."""
    if not isinstance(operand, Value):
        return int(operand)
    return int(operand.data) if operand.data is not None and operand.data.numel() == 1 else None


def is_non_negative(operand: Operand) -> bool:
    """Whether an integer is at least 0 for all sizes: a size, or sums, products and quotients of sizes."""
    if not isinstance(operand, Value):
        return operand >= 0
    if operand.data is not None:
        return bool((operand.data >= 0).all())
    return is_count(operand) or (operand.origin is not None and _gives_non_negative(operand.origin))


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
    if g.opset >= FIRST_MOD:
        return g.op("Mod", left, _with_one_for_minus_one(g, right))
    quotient = g.cast(_floor_divide_integers(g, self, other, dtype), left.dtype)
    return g.op("Sub", left, g.op("Mul", quotient, right))


def _with_one_for_minus_one(g: Builder, divisor: Value) -> Value:
    """The remainder of a division by 1 or -1 is 0."""
    if not _may_trap(g, divisor):
        return divisor
    one = g.constant(1, divisor.dtype)
    return one if _number(divisor) == -1 else g.op("Where", g.op("Equal", divisor, -1), one, divisor)


def _has_other_sign(g: Builder, rest: Value, right: Value, divisor: Operand) -> Value:
    """Whether fmod's remainder, which has the dividend's sign, does not have the divisor's."""
    if isinstance(divisor, Value):
        return g.op("Less", g.op("Mul", g.op("Sign", rest), right), 0.0)
    return g.op("Less" if divisor >= 0 else "Greater", rest, 0.0)


@converter("aten::fmod")
def fmod(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _fmod(g, *_for_modulo(g, self, other, result_type(self, other)))


def _for_modulo(g: Builder, self: Operand, other: Operand, dtype: torch.dtype) -> list[Value]:
    """The operands in the dtype to compute remainders in. Without Mod, floats are divided in double precision.

    There, the remainder of two float32 numbers is exact as long as their quotient is below 2**28.
    """
    operands = g.promoted(self, other, dtype=wide(dtype))
    if g.opset >= FIRST_MOD or not dtype.is_floating_point:
        return operands
    if dtype == torch.float64:
        g.require(FIRST_MOD, "a remainder in double precision")
    return [g.cast(operand, torch.float64) for operand in operands]


def _fmod(g: Builder, left: Value, right: Value) -> Value:
    """Mod from opset 10 on; before, by a division.

    Also by a division for 64-bit integers: the runtime's Mod computes them in double precision, which is not exact.
    """
    if g.opset >= FIRST_MOD and left.dtype != torch.int64:
        return g.op("Mod", left, right, fmod=1)
    if not left.is_float:
        right = _with_one_for_minus_one(g, right)
    quotient = g.op("Div", left, right)
    rest = g.op("Sub", left, g.op("Mul", truncated(g, quotient) if left.is_float else quotient, right))
    if not left.is_float or (right.data is not None and bool(right.data.isfinite().all())):
        return rest
    # A finite number is its own remainder of an infinite divisor.
    return g.op("Where", g.op("Less", g.op("Abs", left), g.op("Abs", right)), left, rest)
