"""The value of each operator on sizes, as Python computes it; a substitute where Python would raise an error."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

Number: TypeAlias = "int | float"
Kind: TypeAlias = "type[int] | type[float] | type[bool]"

# Integers with more bits are not computed: no size is so large.
MAX_BITS = 1 << 16

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
FLOAT_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "float": float,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
}


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MAX_BITS:
        raise OverflowError
    return base**exponent


def _shifted(number: int, count: int) -> int:
    if number.bit_length() + count > MAX_BITS:
        raise OverflowError
    return number << count


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    **FLOAT_FUNCTIONS,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "pow": _power,
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "round": round,
    "isqrt": lambda number: math.isqrt(max(number, 0)),
    "bit_length": lambda number: int(number).bit_length(),
    "lshift": _shifted,
    "rshift": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.not_,
    "where": lambda condition, left, right: left if condition else right,
}

ARITHMETIC = frozenset({"add", "sub", "mul", "floordiv", "mod", "neg", "abs", "lshift", "rshift"})
# The errors that Python raises if an operator has no result.
UNDEFINED = (ZeroDivisionError, ValueError, OverflowError)
WHOLE = frozenset({"ceil", "floor", "trunc", "isqrt", "bit_length"})


def kind_of(op: str, kinds: Sequence[Kind], exponent: Number = 0) -> Kind:
    """The type of the result: int, float or bool; for a power of ints it depends on the exponent's sign."""
    if op in COMPARISONS or op == "not":
        return bool
    if op in FLOAT_FUNCTIONS or op == "truediv":
        return float
    if op in WHOLE or (op == "round" and len(kinds) == 1):
        return int
    if op == "pow" and exponent < 0:
        return float
    given = kinds[1:] if op == "where" else kinds[:1] if op == "round" else kinds
    if float in given:
        return float
    return int if op in ARITHMETIC or op in ("pow", "round") or int in given else bool


def compute(op: str, kind: Kind, *numbers: Any) -> Number:
    """The result at one point."""
    try:
        result = FUNCTIONS[op](*numbers)
        if type(result) is kind:
            return result
        return math.nan if isinstance(result, complex) else kind(result)
    except UNDEFINED:
        return _stand_in(op, numbers) if kind is float else kind(0)


def compute_all(op: str, kind: Kind, columns: Sequence[Iterable[Any]]) -> tuple[Number, ...]:
    """The results at all points; each column has an operand's values, and may repeat one forever."""
    try:
        results = tuple(map(FUNCTIONS[op], *columns))
        if set(map(type, results)) == {kind}:
            return results
    except UNDEFINED:
        pass
    return tuple([compute(op, kind, *numbers) for numbers in zip(*columns, strict=False)])


def _stand_in(op: str, numbers: Sequence[Any]) -> float:
    """The result by IEEE 754 if Python raises an error."""
    first = numbers[0]
    if op in ("truediv", "floordiv"):
        sign = math.copysign(1, first) * math.copysign(1, numbers[1])
        return sign * math.inf if first and first == first else math.nan
    if op in ("log", "log2", "log10"):
        return -math.inf if first == 0 else math.nan
    if op == "pow":
        return -math.inf if first < 0 and numbers[1] % 2 == 1 else math.inf
    if op in ("exp", "float"):
        return math.inf if first > 0 else -math.inf
    return math.nan
