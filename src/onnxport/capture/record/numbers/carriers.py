"""Python numbers that know how they were computed: ints and floats to Python, symbolic ones to C++.

An int subclass would be read by CPython without being asked (``range(n)``, ``list[n]``, ``math.isqrt(n)``). A subclass
of ``torch.SymInt`` that says its class is ``int`` is asked, so that every place where an expression is dropped is seen;
C++ takes it as it is, and it comes out in the arguments of the ATen call.
"""

from __future__ import annotations

import functools
import math
import operator
import pathlib
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import torch

from onnxport.capture.record.handlers import handles_errors
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.numbers.lookups import as_key, is_look_up, numbers_at_hand, outside_of_keys
from onnxport.capture.record.numbers.symbolic_node import SymbolicNode
from onnxport.capture.record.numbers.texts import text_of
from onnxport.capture.record.record import Number, read_from


class _Carrier:
    """What integers and floats have in common. Comparisons are conditions of the model's; conversions are losses."""

    node: SymbolicNode

    @property
    def number(self) -> Number:
        return self.node.number

    def __int__(self) -> int:
        return int(_lost("int", self.node.number))

    def __float__(self) -> float:
        return float(_lost("float", self.node.number))

    def __complex__(self) -> complex:
        return complex(_lost("complex", self.node.number))

    def __bool__(self) -> bool:
        return _condition("ne", self.node.number, 0, self.node.number.value != 0)

    def __hash__(self) -> int:
        frame = outside_of_keys(sys._getframe(1))
        STATE.hashed = id(frame), frame.f_lasti
        _note_look_up(self.node.number, frame, int)
        return hash(self.node.number.value)

    def __repr__(self) -> str:
        return _text(repr(self.node.number.value), self.node.number)

    def __str__(self) -> str:
        return _text(str(self.node.number.value), self.node.number)

    def __format__(self, spec: str) -> str:
        return _text(format(self.node.number.value, spec), self.node.number)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(_lost("numpy", self.node.number), dtype=dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A function of numpy's on single numbers keeps the expression; any other one gets plain numbers."""
        compute = NUMPY_FUNCTIONS.get(function) if method == "__call__" and not kwargs else None
        given = [part.item() if isinstance(part, np.generic) else part for part in inputs]
        if compute is not None and all(type(part) in (int, float, *CARRIERS) for part in given):
            return compute(*given)
        found = [part.__array__() if type(part) in CARRIERS else part for part in inputs]
        return getattr(function, method)(*found, **kwargs)

    # What functions of numpy's give has these methods.
    def item(self) -> Any:
        return self

    def astype(self, kind: Any) -> Any:
        return math.trunc(self) if np.issubdtype(kind, np.integer) else self * 1.0  # type: ignore[arg-type,operator]

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __copy__(self) -> Any:
        return self

    def __reduce__(self) -> Any:
        value = self.node.number.value
        return type(value), (value,)

    def __pos__(self) -> Any:
        return self

    def conjugate(self) -> Any:
        return self

    # What torch.sym_max and its kind call.
    def __sym_max__(self, other: Any) -> Any:
        return _extreme("max", max, self, other)

    def __sym_min__(self, other: Any) -> Any:
        return _extreme("min", min, self, other)

    def __sym_float__(self) -> Any:
        return self * 1.0  # type: ignore[operator]

    def __sym_int__(self) -> Any:
        return math.trunc(self)  # type: ignore[arg-type]

    real = property(conjugate)
    imag = property(lambda self: 0)


class SizeInt(_Carrier, torch.SymInt):
    """An int that carries its expression."""

    __class__ = property(lambda self: int)

    def __index__(self) -> int:
        listener = STATE.listener
        if listener is not None and _is_parsed(sys._getframe(1)):
            listener.note_asked(self.node.number)
            return int(self.node.number.value)
        return int(_lost("index", self.node.number))

    def is_integer(self) -> bool:
        return True

    def bit_length(self) -> Any:
        return carried(self.node.number.value.bit_length(), "bit_length", self.node.number)

    def bit_count(self) -> int:
        return int(_lost("bit_count", self.node.number).bit_count())

    def to_bytes(self, *args: Any, **kwargs: Any) -> bytes:
        return bytes(_lost("to_bytes", self.node.number).to_bytes(*args, **kwargs))

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None or digits >= 0:
            return self
        return carried(round(self.node.number.value, digits), "round", self.node.number, digits)

    __ceil__ = __floor__ = __trunc__ = _Carrier.__pos__

    def __invert__(self) -> Any:
        return -self - 1

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    numerator = property(_Carrier.conjugate)
    denominator = property(lambda self: 1)


class SizeFloat(_Carrier, torch.SymFloat):
    """A float that carries its expression."""

    __class__ = property(lambda self: float)

    def is_integer(self) -> Any:
        return self.__floor__() == self

    def __ceil__(self) -> Any:
        return carried(math.ceil(self.node.number.value), "ceil", self.node.number)

    def __floor__(self) -> Any:
        return carried(math.floor(self.node.number.value), "floor", self.node.number)

    def __trunc__(self) -> Any:
        return carried(math.trunc(self.node.number.value), "trunc", self.node.number)

    def __round__(self, digits: int | None = None) -> Any:
        operands = (self.node.number,) if digits is None else (self.node.number, digits)
        return carried(round(self.node.number.value, digits), "round", *operands)


CARRIERS = (SizeInt, SizeFloat)
# What numpy's functions compute of numbers; those that round give floats.
NUMPY_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.ceil: lambda number: math.ceil(number) * 1.0,
    np.floor: lambda number: math.floor(number) * 1.0,
    np.trunc: lambda number: math.trunc(number) * 1.0,
    np.rint: lambda number: round(number) * 1.0,
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.negative: operator.neg,
    np.absolute: abs,
    np.minimum: lambda left, right: _extreme("min", min, left, right),
    np.maximum: lambda left, right: _extreme("max", max, left, right),
    np.sqrt: lambda number: _float_function("sqrt", number),
    np.log2: lambda number: _float_function("log2", number),
    np.log10: lambda number: _float_function("log10", number),
    np.log: lambda number: _float_function("log", number),
    np.exp: lambda number: _float_function("exp", number),
}
SYMBOLIC = frozenset({SizeInt, SizeFloat, torch.SymInt, torch.SymFloat, torch.SymBool})


def carried(value: Any, op: str, *operands: Any) -> Any:
    """A number with its expression; what is neither an int nor a float stands for itself."""
    kind = type(value)
    if kind is not int and kind is not float:
        return value
    made = (SizeInt if kind is int else SizeFloat)(SymbolicNode(Number(value, op, operands)))
    if STATE.given is not None:
        STATE.given.append(weakref.ref(made))
    return made


def number_of(value: Any) -> Any:
    """The `Number` behind what Python or C++ has; a plain number stands for itself."""
    return value.node.number if type(value) in SYMBOLIC and isinstance(value.node, SymbolicNode) else value


def plain(value: Any) -> Any:
    """The value without its expression, for ourselves: this is no loss."""
    return value.node.number.value if type(value) in SYMBOLIC and isinstance(value.node, SymbolicNode) else value


def _extreme(op: str, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    return carried(compute(plain(left), plain(right)), op, number_of(left), number_of(right))


def sum_of(*numbers: Any) -> Any:
    """What ``torch.sym_sum`` gives, as a number of Python's."""
    return sum(numbers[0] if len(numbers) == 1 and isinstance(numbers[0], (list, tuple)) else numbers)


def _float_function(name: str, number: Any) -> Any:
    return carried(getattr(math, name)(plain(number)), name, number_of(number))


def _lost(how: str, number: Number) -> Any:
    if STATE.listener is not None:
        STATE.listener.note_loss(how, number)
    return number.value


def _text(text: str, number: Number) -> str:
    if STATE.listener is None:
        return text
    follows_sizes = type(number.value) is int and number.value >= 0 and not any(read_from(number))
    counted = (lambda: _digits(number)) if follows_sizes and text == str(number.value) else None
    looked_up = functools.partial(_note_look_up, number, kind=str)
    return text_of(text, lambda: _lost("text", number), counted, looked_up)


def _note_look_up(number: Number, frame: FrameType, kind: type) -> None:
    """A number is looked up among keys that are numbers, or as a text among texts."""
    frame = outside_of_keys(frame)
    if STATE.listener is None:
        return
    if is_look_up(frame):
        STATE.listener.note_loss("look-up", number, numbers_at_hand(frame, kind))
    elif kind is str:
        STATE.listener.note_loss("text", number)


def _digits(number: Number) -> int:
    """How many digits a number has, by comparisons."""
    digits = 1
    while _condition("ge", number, 10**digits, bool(number.value >= 10**digits)):
        digits += 1
    return digits


def _condition(op: str, left: Any, right: Any, outcome: bool) -> bool:
    return outcome if STATE.listener is None else STATE.listener.note_condition(op, left, right, outcome)


def _is_hashed(frame: FrameType) -> bool:
    return STATE.hashed == (id(frame), frame.f_lasti)


def _is_parsed(frame: Any) -> bool:
    """Whether C++ asks for an index because it parses the arguments of a call: it does so below our own mode."""
    return bool(frame.f_code.co_filename == _MODE_FILE)


_MODE_FILE = str(pathlib.Path(__file__).parents[1] / "mode.py")


DIVISIONS = frozenset({"floordiv", "mod", "truediv"})


def _note_divisor(number: Any) -> None:
    """Where the model handles a division by zero, it is a condition whether there is one."""
    if type(number) is Number and number.operands and handles_errors(sys._getframe(2), (ZeroDivisionError,)):
        _condition("ne", number, 0, number.value != 0)


def _binary(op: str, reflected: bool) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, {"and": "and_", "or": "or_"}.get(op, op))

    def method(self: Any, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:  # pow(n, 2, 7)
            return method(self, other) % modulus
        own, given = self.node.number, number_of(other)
        value = given.value if type(given) is Number else given
        if type(value) not in (int, float, bool):
            if isinstance(value, (list, tuple, str, bytes)) and op == "mul":
                return value * _lost("repeat", own)
            return NotImplemented
        if STATE.listener is not None:
            if op in DIVISIONS:
                _note_divisor(own if reflected else given)
            elif op == "pow" and not reflected and value < 0:
                _note_divisor(own)
        if reflected:
            return carried(compute(value, own.value), op, given, own)
        return carried(compute(own.value, value), op, own, given)

    return method


def _comparison(op: str) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, op)

    def method(self: Any, other: Any) -> Any:
        own, given = self.node.number, number_of(other)
        value = given.value if type(given) is Number else given
        if type(value) not in (int, float, bool):
            return NotImplemented
        return _condition(op, own, given, compute(own.value, value))

    return method


def _unary(op: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: carried(compute(self.node.number.value), op, self.node.number)


for _kind in CARRIERS:
    for _op in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        setattr(_kind, f"__{_op}__", _binary(_op, reflected=False))
        setattr(_kind, f"__r{_op}__", _binary(_op, reflected=True))
    for _op in ("lt", "le", "gt", "ge", "ne"):
        setattr(_kind, f"__{_op}__", _comparison(_op))
    # Python takes the hash away from a class that is given an __eq__.
    for _op, _method in (
        ("eq", as_key(_comparison("eq"), _lost, _is_hashed)),
        ("hash", _Carrier.__hash__),
        ("neg", _unary("neg", operator.neg)),
        ("abs", _unary("abs", abs)),
    ):
        setattr(_kind, f"__{_op}__", _method)
for _op in ("lshift", "rshift", "and", "or", "xor"):
    setattr(SizeInt, f"__{_op}__", _binary(_op, reflected=False))
    setattr(SizeInt, f"__r{_op}__", _binary(_op, reflected=True))
