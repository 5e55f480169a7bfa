"""Numbers as C++ has them: it takes a symbolic number as it is, and it comes out in the arguments of the ATen call."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import Number


class SymbolicNode:
    """What C++ asks of a symbolic number. It may compute with it: the bounds of a slice, for one."""

    __slots__ = ("number",)
    # What torch's own definitions ask for before they ask for the value.
    _hint = expr = shape_env = None

    def __init__(self, number: Number) -> None:
        self.number = number

    def is_int(self) -> bool:
        return type(self.number.value) is int

    def is_float(self) -> bool:
        return type(self.number.value) is float

    def is_bool(self) -> bool:
        return type(self.number.value) is bool

    def wrap_int(self, value: int) -> SymbolicNode:
        return SymbolicNode(Number(value, "constant", ()))

    wrap_bool = wrap_float = wrap_int

    def guard_int(self, file: str, line: int) -> Any:
        """A schema wants a plain number here: which of its arguments it becomes is found out at the call."""
        if STATE.listener is not None:
            STATE.listener.note_asked(self.number)
        return self.number.value

    guard_float = guard_int

    def guard_bool(self, file: str, line: int) -> bool:
        return bool(self.number.value)

    guard_size_oblivious = expect_true = guard_bool

    def int_(self) -> Any:
        return self.guard_int("", 0)

    def bool_(self) -> bool:
        return bool(self.number.value)

    # C++ asks these before it takes a short cut that only the example allows: x[:, :h] of an x that has h columns.
    def guard_or_false(self, file: str, line: int) -> bool:
        return False

    statically_known_true = guard_or_false

    def guard_or_true(self, file: str, line: int) -> bool:
        return True

    def has_hint(self) -> bool:
        return True

    is_symbolic = has_hint

    def is_constant(self) -> bool:
        return False

    is_nested_int = is_constant

    def maybe_as_int(self) -> None:
        return None

    nested_int = maybe_as_float = maybe_as_bool = constant_int = maybe_as_int

    def clone(self) -> SymbolicNode:
        return self

    def __str__(self) -> str:
        return str(self.number.value)

    _graph_repr = __str__

    def sym_not(self) -> SymbolicNode:
        return SymbolicNode(Number(not self.number.value, "not", (self.number,)))

    def sym_float(self) -> SymbolicNode:
        return self.wrap_int(1.0).mul(self)  # type: ignore[attr-defined,no-any-return,arg-type]

    def neg(self) -> SymbolicNode:
        return SymbolicNode(Number(-self.number.value, "neg", (self.number,)))

    def sym_min(self, other: SymbolicNode) -> SymbolicNode:
        return _combined("min", min, self, other)

    def sym_max(self, other: SymbolicNode) -> SymbolicNode:
        return _combined("max", max, self, other)

    def and_(self, other: SymbolicNode) -> SymbolicNode:
        return _combined("and", lambda left, right: left and right, self, other)

    def or_(self, other: SymbolicNode) -> SymbolicNode:
        return _combined("or", lambda left, right: left or right, self, other)

    sym_and, sym_or = and_, or_


def _combined(op: str, compute: Callable[[Any, Any], Any], left: SymbolicNode, right: SymbolicNode) -> SymbolicNode:
    return SymbolicNode(Number(compute(left.number.value, right.number.value), op, (left.number, right.number)))


def _node_method(op: str) -> Callable[[SymbolicNode, SymbolicNode], SymbolicNode]:
    compute = getattr(operator, op)
    return lambda self, other: _combined(op, compute, self, other)


for _op in ("add", "sub", "mul", "mod", "floordiv", "truediv", "pow", "eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymbolicNode, _op, _node_method(_op))
for _op in ("floordiv", "truediv"):
    setattr(SymbolicNode, f"int_{_op}", _node_method(_op))
