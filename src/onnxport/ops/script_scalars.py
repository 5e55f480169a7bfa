"""Arithmetic of scripted code on Python numbers: 64-bit integers, double precision, and bools."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, Entry, converter, entries
from onnxport.lower.size_operators import bit_by_bit
from onnxport.lower.value import Operand, Value
from onnxport.ops.elementwise import arithmetic, bitwise, division

MIXED = ("int", "float", "int_float", "float_int")
SINGLE = ("int", "float", "Scalar")


def _number_dtype(operand: Operand) -> torch.dtype:
    if isinstance(operand, Value):
        return operand.dtype
    return {bool: torch.bool, int: torch.int64}.get(type(operand), torch.float64)


def _pair(g: Builder, a: Operand, b: Operand, dtype: torch.dtype | None = None) -> tuple[Value, Value]:
    """Two numbers in their common type."""
    dtypes = [_number_dtype(a), _number_dtype(b)]
    whole = all(found in (torch.int64, torch.bool) for found in dtypes)
    both = dtype or (dtypes[0] if dtypes[0] == dtypes[1] else torch.int64 if whole else torch.float64)
    return g.cast(a, both), g.cast(b, both)


def _two(function: Callable[[Builder, Value, Value], Value], dtype: torch.dtype | None = None) -> Converter:
    return lambda g, a, b: function(g, *_pair(g, a, b, dtype))


def _one(op_type: str) -> Converter:
    return lambda g, a: g.op(op_type, g.cast(a, torch.float64))


def _op(op_type: str) -> Callable[[Builder, Value, Value], Value]:
    return lambda g, a, b: g.op(op_type, a, b)


def _integer_power(g: Builder, a: Value, b: Value) -> Value:
    return g.cast(arithmetic.pow(g, g.cast(a, torch.float64), g.cast(b, torch.float64)), torch.int64)


TWO: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "aten::add": _op("Add"),
    "aten::sub": _op("Sub"),
    "aten::mul": _op("Mul"),
    "aten::floordiv": division.floor_divide,
    "aten::remainder": division.remainder,
    "aten::lt": _op("Less"),
    "aten::gt": _op("Greater"),
    "aten::le": emit.less_or_equal,
    "aten::ge": emit.greater_or_equal,
    "aten::eq": emit.equal,
    "aten::ne": lambda g, a, b: g.op("Not", emit.equal(g, a, b)),
    "prim::min": emit.minimum,
    "prim::max": emit.maximum,
}
# Always in double precision, whatever the type of the argument.
FLOATING_TWO: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "aten::div": _op("Div"),
    "aten::pow": arithmetic.pow,
    "aten::fmod": division.fmod,
    "aten::atan2": arithmetic.atan2,
}
FLOATING_ONE = {
    "aten::sqrt": "Sqrt", "aten::exp": "Exp", "aten::log": "Log", "aten::sin": "Sin", "aten::cos": "Cos",
    "aten::tan": "Tan", "aten::tanh": "Tanh", "aten::sinh": "Sinh", "aten::cosh": "Cosh", "aten::atan": "Atan",
    "aten::asin": "Asin", "aten::acos": "Acos", "aten::erf": "Erf", "aten::fabs": "Abs",
}  # fmt: skip


def _entries(operator: str, overloads: tuple[str, ...], function: Converter) -> Entry:
    return Entry(tuple(f"{operator}.{overload}" for overload in overloads), function)


NUMBERS = [
    *(_entries(operator, MIXED, _two(function)) for operator, function in TWO.items()),
    *(_entries(operator, MIXED, _two(function, torch.float64)) for operator, function in FLOATING_TWO.items()),
    *(_entries(operator, SINGLE, _one(op_type)) for operator, op_type in FLOATING_ONE.items()),
    *(_entries(operator, ("bool",), _two(TWO[operator])) for operator in ("aten::eq", "aten::ne")),
    _entries("aten::pow", ("int_to_int",), _two(_integer_power)),
]


@converter("aten::neg.int", "aten::neg.float")
def negative(g: Builder, a: Value) -> Value:
    """aten::neg.int(int a) -> int"""
    return g.op("Neg", a)


@converter("prim::abs.int", "prim::abs.float")
def absolute(g: Builder, a: Value) -> Value:
    """prim::abs.int(int a) -> int"""
    return g.op("Abs", a)


@converter("aten::floor.float", "aten::floor.int")
def floor(g: Builder, a: Value) -> Value:
    """aten::floor.float(float a) -> int"""
    return a if a.dtype == torch.int64 else g.cast(g.op("Floor", a), torch.int64)


@converter("aten::ceil.float", "aten::ceil.int")
def ceil(g: Builder, a: Value) -> Value:
    """aten::ceil.float(float a) -> int"""
    return a if a.dtype == torch.int64 else g.cast(g.op("Ceil", a), torch.int64)


@converter("aten::round.float", "aten::round.int")
def round_(g: Builder, a: Value) -> Value:
    """aten::round.float(float a) -> float"""
    return emit.round_(g, g.cast(a, torch.float64))


@converter("aten::__not__")
def negated(g: Builder, self: Value) -> Value:
    """aten::__not__(bool self) -> bool"""
    return g.op("Not", self)


@converter("aten::__and__.bool")
def both(g: Builder, a: Operand, b: Operand) -> Value:
    """aten::__and__.bool(bool a, bool b) -> bool"""
    return g.op("And", *_pair(g, a, b, torch.bool))


@converter("aten::__or__.bool")
def either(g: Builder, a: Operand, b: Operand) -> Value:
    """aten::__or__.bool(bool a, bool b) -> bool"""
    return g.op("Or", *_pair(g, a, b, torch.bool))


@converter("aten::__xor__.bool")
def one_of(g: Builder, a: Operand, b: Operand) -> Value:
    """aten::__xor__.bool(bool a, bool b) -> bool"""
    return g.op("Xor", *_pair(g, a, b, torch.bool))


def _joined_bits(op: str) -> Converter:
    """Bitwise operators; before opset 18 ONNX has none. A mask of the lowest bits is a remainder."""

    def convert(g: Builder, a: Operand, b: Operand) -> Value:
        if op == "And" and not isinstance(a, Value):
            a, b = b, a
        if g.opset >= bitwise.FIRST_BITWISE or (op == "And" and g.opset >= 10 and bitwise.is_low_mask(b)):
            return bitwise.joined_bits(g, op, a, b)
        return bit_by_bit(g, op, *_pair(g, a, b, torch.int64))

    return convert


BITS = entries(_joined_bits, {"aten::__and__.int": "And", "aten::__or__.int": "Or", "aten::__xor__.int": "Xor"})


@converter("aten::__lshift__.int")
def left_shift(g: Builder, a: Operand, b: Operand) -> Value:
    """aten::__lshift__.int(int a, int b) -> int"""
    return bitwise.left_shift(g, g.cast(a, torch.int64), b)


@converter("aten::__rshift__.int")
def right_shift(g: Builder, a: Operand, b: Operand) -> Value:
    """aten::__rshift__.int(int a, int b) -> int"""
    return bitwise.right_shift(g, g.cast(a, torch.int64), b)


@converter("aten::__range_length")
def range_length(g: Builder, lo: Operand, hi: Operand, step: Operand) -> Value:
    """aten::__range_length(int lo, int hi, int step) -> int"""
    low, high, by = (g.cast(number, torch.int64) for number in (lo, hi, step))
    span = g.cast(g.op("Sub", high, low), torch.float64)
    count = g.op("Ceil", g.op("Div", span, g.cast(by, torch.float64)))
    return emit.maximum(g, g.cast(count, torch.int64), g.constant(0, torch.int64))


@converter("aten::__derive_index")
def derive_index(g: Builder, index: Operand, start: Operand, step: Operand) -> Value:
    """aten::__derive_index(int index, int start, int step) -> int"""
    steps = g.op("Mul", g.cast(index, torch.int64), g.cast(step, torch.int64))
    return g.op("Add", g.cast(start, torch.int64), steps)


@converter("aten::tensor")
def tensor(
    g: Builder,
    data: Operand | list[Operand] | None = None,
    dtype: torch.dtype | None = None,
    *,
    t: Operand | None = None,
    **rest: object,
) -> Value:
    """aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor

    A single number is called ``t``, as in aten::tensor.int.
    """
    data = t if data is None else data
    assert data is not None
    return g.cast(_stacked(g, data, g.outputs[0].dtype), g.outputs[0].dtype)


def _stacked(g: Builder, data: Operand | list[Operand], dtype: torch.dtype) -> Value:
    if not isinstance(data, (list, tuple)):
        return g.cast(data, dtype)
    rows = [emit.unsqueeze(g, _stacked(g, part, dtype), [0]) for part in data]
    return rows[0] if len(rows) == 1 else g.op("Concat", *rows, axis=0)
