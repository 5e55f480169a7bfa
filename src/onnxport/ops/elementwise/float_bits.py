"""The parts and the bits of floating-point numbers: frexp, nextafter, hash_tensor, and views as another dtype."""

from __future__ import annotations

import math

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.elementwise.comparison import signbit

INT64_MIN = -(2**63)

# The number of bits of the mantissa, with the hidden one, and the exponent of the smallest number.
PRECISION = {
    torch.float64: (53, -1074),
    torch.float32: (24, -149),
    torch.float16: (11, -24),
    torch.bfloat16: (8, -133),
}


@converter("aten::frexp")
def frexp(g: Builder, self: Value) -> tuple[Value, Value]:
    """aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    mantissa, exponent = _parts(g, g.cast(self, torch.float64))
    return g.cast(mantissa, self.dtype), g.cast(exponent, torch.int32)


def _parts(g: Builder, x: Value) -> tuple[Value, Value]:
    """A mantissa from 0.5 to 1 with the number's sign, and an exponent; for 0, inf and nan the number and 0."""
    size = g.op("Abs", x)
    usable = g.op("And", g.op("Greater", size, 0.0), g.op("Less", size, math.inf))
    safe = g.op("Where", usable, size, g.constant(1.0, torch.float64))
    guess = g.op("Floor", g.op("Mul", g.op("Log", safe), 1 / math.log(2)))
    # In two steps, because 2 to the power of a large exponent would overflow.
    half = g.op("Floor", g.op("Mul", guess, 0.5))
    scaled = g.op("Mul", g.op("Mul", safe, _power(g, g.op("Neg", half))), _power(g, g.op("Sub", half, guess)))
    # The logarithm is rounded: the guess may be off by one.
    high = g.cast(emit.greater_or_equal(g, scaled, 2.0), torch.float64)
    low = g.cast(g.op("Less", scaled, 1.0), torch.float64)
    shift = g.op("Sub", high, low)
    mantissa = g.op("Mul", g.op("Mul", scaled, _power(g, g.op("Neg", shift))), g.op("Mul", g.op("Sign", x), 0.5))
    exponent = g.op("Add", g.op("Add", guess, shift), 1.0)
    return g.op("Where", usable, mantissa, x), g.op("Where", usable, exponent, g.constant(0.0, torch.float64))


def _power(g: Builder, exponent: Value) -> Value:
    return g.op("Pow", g.constant(2.0, torch.float64), exponent)


@converter("aten::nextafter")
def nextafter(g: Builder, self: Value, other: Value) -> Value:
    """aten::nextafter(Tensor self, Tensor other) -> Tensor"""
    dtype = g.outputs[0].dtype
    bits, lowest = PRECISION[dtype]
    x, towards = g.cast(self, torch.float64), g.cast(other, torch.float64)
    mantissa, exponent = _parts(g, x)
    rises = g.op("Greater", towards, x)
    # Below a power of two the distance between numbers is half as large.
    inwards = g.op("And", emit.equal(g, g.op("Abs", mantissa), 0.5), g.op("Xor", rises, g.op("Greater", x, 0.0)))
    unit_exponent = g.op("Sub", g.op("Sub", exponent, float(bits)), g.cast(inwards, torch.float64))
    unit_exponent = emit.where(
        g, emit.equal(g, x, 0.0), float(lowest), emit.clip(g, unit_exponent, float(lowest), None)
    )
    unit = _power(g, unit_exponent)
    moved = g.op("Add", x, g.op("Where", rises, unit, g.op("Neg", unit)))
    largest = g.op("Mul", g.op("Sign", x), torch.finfo(dtype).max)
    moved = g.op("Where", emit.equal(g, g.op("Abs", x), math.inf), largest, moved)
    stays = g.op("Or", emit.equal(g, x, towards), emit.is_nan(g, towards))
    return g.cast(g.op("Where", stays, towards, moved), dtype)


@converter("aten::hash_tensor")
def hash_tensor(g: Builder, self: Value, dim: list[int] | None = None, keepdim: bool = False, mode: int = 0) -> Value:
    """aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor"""
    g.require(18, "ONNX's BitwiseXor")
    assert self.shape is not None
    axes = sorted(axis % self.rank for axis in dim or range(self.rank)) if self.rank else []
    bits = _bits(g, g.cast(self, torch.float64)) if self.is_float else g.cast(self, torch.int64)
    for axis in axes:
        size = self.shape[axis]
        if not isinstance(size, int):
            g.unsupported("an exclusive or over an axis whose size is only known at run time")
        bits = _joined(g, bits, axis, size)
    bits = bits if keepdim else emit.squeeze(g, bits, axes)
    return g.cast(bits, torch.uint64)


def _bits(g: Builder, x: Value) -> Value:
    """The bits of a float64 number as an integer: sign, exponent and fraction."""
    mantissa, exponent = _parts(g, x)
    fraction = g.cast(g.op("Mul", g.op("Sub", g.op("Mul", g.op("Abs", mantissa), 2.0), 1.0), 2.0**52), torch.int64)
    finite = g.op("Add", g.op("Mul", g.cast(g.op("Add", exponent, 1022.0), torch.int64), 2**52), fraction)
    bits = g.op("Where", emit.equal(g, x, 0.0), g.constant(0, torch.int64), finite)
    bits = g.op("Where", emit.equal(g, g.op("Abs", x), math.inf), g.constant(0x7FF << 52, torch.int64), bits)
    bits = g.op("Where", emit.is_nan(g, x), g.constant(0xFFF << 51, torch.int64), bits)
    return g.op("Add", bits, g.op("Where", signbit(g, x), g.constant(INT64_MIN), g.constant(0, torch.int64)))


def _joined(g: Builder, x: Value, axis: int, size: int) -> Value:
    """The exclusive or of all elements along an axis, by halving the axis repeatedly."""
    while size > 1:
        half = size // 2
        joined = g.op(
            "BitwiseXor", emit.slice_(g, x, [0], [half], [axis]), emit.slice_(g, x, [half], [2 * half], [axis])
        )
        rest = emit.slice_(g, x, [2 * half], [size], [axis])
        x = g.op("Concat", joined, rest, axis=axis) if size % 2 else joined
        size -= half
    return x


# Bits as another type


@converter("aten::view.dtype")
def view_dtype(g: Builder, self: Value, dtype: torch.dtype) -> Value:
    """aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)

    BitCast from opset 26 on, which keeps the bits of a NaN. Before, bits are computed, and NaN has its usual bits.
    """
    if self.dtype == dtype:
        return self
    width, wanted = _width(self.dtype), _width(dtype)
    if width < wanted:
        g.unsupported(f"a view of {self.dtype} as {dtype}, which has larger elements: use a dtype of the same size")
    if width == wanted and g.runs("BitCast", self.dtype) and g.runs("BitCast", dtype):
        return g.op("BitCast", self, to=dtype)
    bits = _float_as_bits(g, self) if self.is_float else g.cast(self, torch.int64)
    if width > wanted:
        bits = _in_parts(g, bits, width // wanted, wanted)
    return _bits_as_float(g, bits, dtype) if dtype.is_floating_point else g.cast(bits, dtype)


def _width(dtype: torch.dtype) -> int:
    return 8 * dtype.itemsize


def _in_parts(g: Builder, bits: Value, count: int, width: int) -> Value:
    """Split each integer into ``count`` integers of ``width`` bits, the lowest first, along the last axis."""
    assert bits.shape is not None
    column = emit.unsqueeze(g, bits, [bits.rank])
    shifts = g.constant([1 << width * part for part in range(count)], torch.int64)
    shifted = g.op("Div", g.op("Sub", column, g.op("Mod", column, shifts)), shifts)
    return emit.reshape(g, g.op("Mod", shifted, 1 << width), [*bits.shape[:-1], count * bits.shape[-1]])


def _float_as_bits(g: Builder, x: Value) -> Value:
    """Sign, exponent and fraction as a 64-bit integer, which has the sign of the float."""
    if x.dtype == torch.float64:
        return _bits(g, x)
    precision, lowest = PRECISION[x.dtype]
    fraction = precision - 1
    number = g.cast(x, torch.float64)
    _, exponent = _parts(g, number)
    # The exponent of the leading bit; zero and subnormal numbers have that of the smallest normal one.
    unit_exponent = emit.clip(g, g.op("Sub", exponent, 1.0), float(lowest + fraction), None)
    unit_exponent = emit.where(g, emit.equal(g, number, 0.0), float(lowest + fraction), unit_exponent)
    digits = g.op("Mul", g.op("Abs", number), _power(g, g.op("Sub", float(fraction), unit_exponent)))
    bits = g.op("Add", digits, g.op("Mul", g.op("Sub", unit_exponent, float(lowest + fraction)), float(2**fraction)))
    infinity = 2 ** (_width(x.dtype) - 1) - 2**fraction
    bits = emit.where(g, emit.equal(g, g.op("Abs", number), math.inf), float(infinity), bits)
    bits = emit.where(g, emit.is_nan(g, x), float(infinity + 2 ** (fraction - 1)), bits)
    turned = g.op("Sub", bits, float(2 ** (_width(x.dtype) - 1)))
    return g.cast(g.op("Where", signbit(g, x), turned, bits), torch.int64)


def _bits_as_float(g: Builder, bits: Value, dtype: torch.dtype) -> Value:
    """The number with this sign, exponent and fraction."""
    precision, lowest = PRECISION[dtype]
    fraction, width = precision - 1, _width(dtype)
    negative = g.op("Less", bits, 0)
    if width < 64:
        negative = g.op("Or", negative, g.op("Greater", bits, 2 ** (width - 1) - 1))
        size = g.op("Mod", bits, 2 ** (width - 1))
    else:
        size = g.op("Where", negative, g.op("Sub", bits, INT64_MIN), bits)
    exponent, rest = g.op("Div", size, 2**fraction), g.op("Mod", size, 2**fraction)
    is_normal = g.cast(g.op("Greater", exponent, 0), torch.int64)
    digits = g.cast(g.op("Add", rest, g.op("Mul", is_normal, 2**fraction)), torch.float64)
    unit_exponent = g.cast(g.op("Add", g.op("Sub", exponent, is_normal), lowest), torch.float64)
    special = emit.where(g, g.op("Equal", rest, 0), math.inf, math.nan, torch.float64)
    is_special = g.op("Equal", exponent, 2 ** (width - 1 - fraction) - 1)
    number = g.op("Where", is_special, special, g.op("Mul", digits, _power(g, unit_exponent)))
    # A product keeps the sign of zero; the runtime's Neg does not.
    return g.cast(g.op("Mul", number, emit.where(g, negative, -1.0, 1.0, torch.float64)), dtype)
