"""Bitwise operators."""

from __future__ import annotations

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import result_type
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.elementwise.division import floor_divide

# The dtype in which the runtime shifts, for dtypes without a kernel.
UNSIGNED = {
    torch.uint8: torch.uint8,
    torch.int8: torch.uint8,
    torch.int16: torch.uint32,
    torch.int32: torch.uint32,
    torch.int64: torch.uint64,
}
FIRST_SHIFT = 11
FIRST_BITWISE = 18
EXACT_BITS = 32


def _power_of_two(g: Builder, exponent: Value) -> Value:
    """2 to the power of an integer from 0 to 62, from a table; for opsets without BitShift."""
    return g.op("Gather", g.constant([1 << bit for bit in range(63)], torch.int64), g.cast(exponent, torch.int64))


def _bitwise(op: str) -> Converter:
    def convert(g: Builder, self: Operand, other: Operand) -> Value:
        return joined_bits(g, op, self, other)

    return convert


def joined_bits(g: Builder, op: str, self: Operand, other: Operand) -> Value:
    """The logical operator of bools, the bitwise one of integers."""
    left, right = g.promoted(self, other)
    if left.dtype == torch.bool:
        return g.op(op, left, right)
    if op == "And" and 10 <= g.opset < FIRST_BITWISE and is_low_mask(other):
        return g.op("Mod", left, int(other) + 1)  # type: ignore[arg-type]
    return g.op(f"Bitwise{op}", left, right) if g.opset >= FIRST_BITWISE else _by_bits(g, op, left, right)


def _by_bits(g: Builder, op: str, left: Value, right: Value) -> Value:
    """Bitwise operators for opsets before 18.

    ``and`` by products of the bits; ``or`` and ``xor`` follow by addition and subtraction.
    """
    dtype = left.dtype
    x, y = g.cast(left, torch.int64), g.cast(right, torch.int64)
    both = _common_bits(g, x, y, torch.iinfo(dtype).bits - (dtype != torch.uint8))
    if dtype != torch.uint8:
        signs = g.op("Mul", _is_below_zero(g, x), _is_below_zero(g, y))
        both = g.op("Add", both, g.op("Mul", signs, _least(dtype)))
    if op == "Or":
        both = g.op("Add", x, g.op("Sub", y, both))
    elif op == "Xor":
        both = g.op("Add", g.op("Sub", x, both), g.op("Sub", y, both))
    return g.cast(both, dtype)


def _common_bits(g: Builder, x: Value, y: Value, count: int) -> Value:
    """The integer with the bits below the sign that are set in both numbers.

    ONNX Runtime sums int64 in double precision, so at most `EXACT_BITS` bits are added at a time.
    """
    total: Value | None = None
    above_zero = [g.op("Sub", n, g.op("Mul", _is_below_zero(g, n), -(1 << count))) for n in (x, y)]
    columns = [emit.unsqueeze(g, number, [number.rank]) for number in above_zero]
    for start in range(0, count, EXACT_BITS):
        bit_range = range(min(EXACT_BITS, count - start))
        powers = g.constant([1 << (start + bit) for bit in bit_range], torch.int64)
        left, right = (emit.modulo(g, g.op("Div", column, powers), 2) for column in columns)
        shared = g.op("Mul", g.op("Mul", left, right), [1 << bit for bit in bit_range])
        part = emit.reduce(g, "ReduceSum", shared, [shared.rank - 1], keepdims=False)
        part = g.op("Mul", part, 1 << start) if start else part
        total = part if total is None else g.op("Add", total, part)
    assert total is not None
    return total


def _is_below_zero(g: Builder, x: Value) -> Value:
    return g.cast(g.op("Less", x, 0), torch.int64)


def _least(dtype: torch.dtype) -> int:
    return torch.iinfo(dtype).min


def is_low_mask(operand: Operand) -> bool:
    """Whether only the lowest bits of a number are set: then ``and`` is a remainder."""
    return isinstance(operand, int) and 0 < operand < 127 and operand & (operand + 1) == 0


BITWISE = entries(
    _bitwise,
    {
        "aten::bitwise_and": "And",
        "aten::__and__": "And",
        "aten::bitwise_or": "Or",
        "aten::__or__": "Or",
        "aten::bitwise_xor": "Xor",
        "aten::__xor__": "Xor",
    },
)


@converter("aten::bitwise_not")
def bitwise_not(g: Builder, self: Value) -> Value:
    """aten::bitwise_not(Tensor self) -> Tensor"""
    if self.dtype == torch.bool:
        return g.op("Not", self)
    if g.opset >= 18:
        return g.op("BitwiseNot", self)
    # In two's complement ~x is -1 - x.
    return g.op("Sub", g.cast(-1, self.dtype), self)


@converter("aten::bitwise_left_shift", "aten::__lshift__")
def left_shift(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    left, right = g.promoted(self, other)
    if not isinstance(other, Value):
        bits = torch.iinfo(left.dtype).bits
        return g.op("Mul", left, 1 << other if 0 <= other < bits else 0)  # type: ignore[operator]
    if g.opset < FIRST_SHIFT:
        return g.op("Mul", left, g.cast(_power_of_two(g, right), left.dtype))
    unsigned = UNSIGNED[left.dtype]
    shifted = g.op("BitShift", g.cast(left, unsigned), g.cast(right, unsigned), direction="LEFT")
    return g.cast(shifted, left.dtype)


@converter("aten::bitwise_right_shift", "aten::__rshift__")
def right_shift(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = result_type(self, other)
    bits = torch.iinfo(dtype).bits
    if not isinstance(other, Value) and 0 <= other < bits - 1:
        return floor_divide(g, self, 1 << int(other))
    left, right = g.promoted(self, other)
    if g.opset < FIRST_SHIFT:
        if not isinstance(other, Value):
            g.require(FIRST_SHIFT, "a shift by the width of the type")
        return floor_divide(g, g.cast(left, torch.int64), _power_of_two(g, right))
    unsigned = UNSIGNED[dtype]
    amount = g.cast(right, unsigned)
    if dtype == unsigned:
        return g.op("BitShift", left, amount, direction="RIGHT")
    # An arithmetic shift: for negative numbers, the bits of -1 - x are shifted and inverted again.
    negative = g.op("Less", left, 0)
    bits_above_zero = g.cast(g.op("Where", negative, bitwise_not(g, left), left), unsigned)
    shifted = g.cast(g.op("BitShift", bits_above_zero, amount, direction="RIGHT"), dtype)
    return g.op("Where", negative, bitwise_not(g, shifted), shifted)
