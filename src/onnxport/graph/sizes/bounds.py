"""Lower and upper bounds of a size expression. The sizes of axes and values are not negative."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from onnxport.graph.sizes.expr import AXIS, SIZE_OF, UNKNOWN, Operand, SizeExpr, in_order, parts, set_bounds
from onnxport.graph.sizes.numeric import Kind, Number

# The least and the greatest value; infinite if unknown.
Bounds: TypeAlias = "tuple[Number, Number]"
Divide: TypeAlias = "Callable[[Any, Any], Number]"

ANY: Bounds = (-math.inf, math.inf)
NOT_NEGATIVE: Bounds = (0, math.inf)
# Larger numbers are treated as infinite.
LARGEST = 1 << 62
ROUNDING: dict[str, Callable[[Any], int]] = {
    "ceil": math.ceil, "floor": math.floor, "trunc": math.trunc, "round": round
}  # fmt: skip
FIXED: dict[str, Bounds] = {
    **dict.fromkeys(("isqrt", "bit_length", "sqrt", "exp"), NOT_NEGATIVE),
    **dict.fromkeys(("sin", "cos"), (-1, 1)),
}


def is_nonnegative(expr: Operand) -> bool:
    return bounds(expr)[0] >= 0


def bounds(expr: Operand) -> Bounds:
    """The range of an expression's value. NaN is ignored."""
    if not isinstance(expr, SizeExpr):
        return limited((expr, expr))
    for part in in_order(expr, lambda of: () if of.bounds is not None else parts(of)):
        if part.bounds is None:
            operands = (
                []
                if part.is_leaf
                else [of.bounds if isinstance(of, SizeExpr) else limited((of, of)) for of in part.operands]
            )
            set_bounds(part, bounds_of_leaf(part) if part.is_leaf else bounds_of(part.op, part.kind, operands))
    found: Bounds = expr.bounds
    return found


def bounds_of_leaf(leaf: SizeExpr) -> Bounds:
    if leaf.kind is bool:
        return 0, 1
    is_size = leaf.op in (AXIS, SIZE_OF) or (leaf.op == UNKNOWN and min(leaf.at) >= 0)
    return NOT_NEGATIVE if is_size else ANY


def bounds_of(op: str, kind: Kind, operands: Sequence[Bounds]) -> Bounds:
    """The range of an operator's result, from those of its operands."""
    if kind is bool:
        return 0, 1
    if op in FIXED:
        return FIXED[op]
    rule = _integer_remainder if op == "mod" and kind is int else RULES.get(op)
    return (
        ANY if rule is None or any(bound != bound for pair in operands for bound in pair) else limited(rule(*operands))
    )


def limited(found: Bounds) -> Bounds:
    """Bounds with numbers infinite that are too large to add floats to them."""
    low, high = found
    return (
        -math.inf if low < -LARGEST else min(low, LARGEST),
        math.inf if high > LARGEST else max(high, -LARGEST),
    )


def bounds_of_product(left: Bounds, right: Bounds) -> Bounds:
    corners = [0 if 0 in (a, b) else a * b for a in left for b in right]
    return min(corners), max(corners)


def _quotient(left: Bounds, right: Bounds, divide: Divide = operator.truediv) -> Bounds:
    """The range of a quotient with a divisor that is not negative."""
    least, most = right
    if least < 0:
        return ANY
    # A division by 0 is 0 for integers, and infinite for floats.
    least = max(least, 1) if isinstance(least, int) else least
    low = _over(left[0], least if left[0] < 0 else most, divide)
    high = _over(left[1], least if left[1] > 0 else most, divide)
    return (low, high) if right[0] > 0 else (min(low, 0), max(high, 0))


def _over(number: Number, divisor: Number, divide: Divide) -> Number:
    if divisor == 0 or math.isinf(number):
        return math.copysign(math.inf, number) if number else 0
    if math.isinf(divisor):
        return 0 if number >= 0 else -1
    return divide(number, divisor)


def _remainder(left: Bounds, right: Bounds) -> Bounds:
    if right[0] < 0:
        return ANY
    return 0, min(right[1], left[1]) if left[0] >= 0 else right[1]


def _integer_remainder(left: Bounds, right: Bounds) -> Bounds:
    return _remainder(left, (right[0], max(right[1] - 1, 0)))


def _power(left: Bounds, right: Bounds) -> Bounds:
    return NOT_NEGATIVE if left[0] >= 0 or (right[0] == right[1] and right[0] % 2 == 0) else ANY


def _absolute(of: Bounds) -> Bounds:
    return of if of[0] >= 0 else (0, max(-of[0], of[1]))


def _and(left: Bounds, right: Bounds) -> Bounds:
    highs = [high for low, high in (left, right) if low >= 0]
    return (0, min(highs)) if highs else ANY


def _not_negative_if_all_are(*operands: Bounds) -> Bounds:
    return NOT_NEGATIVE if all(low >= 0 for low, _ in operands) else ANY


def _rounded(op: str) -> Callable[..., Bounds]:
    def rule(of: Bounds, digits: Bounds | None = None) -> Bounds:
        if digits is not None:
            return _not_negative_if_all_are(of)
        low, high = (bound if math.isinf(bound) else ROUNDING[op](bound) for bound in of)
        # A number that cannot be rounded counts as 0.
        return min(low, 0) if low == math.inf else low, high

    return rule


RULES: dict[str, Callable[..., Bounds]] = {
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "sub": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "neg": lambda of: (-of[1], -of[0]),
    "mul": bounds_of_product,
    "floordiv": lambda left, right: _quotient(left, right, operator.floordiv),
    "truediv": _quotient,
    "mod": _remainder,
    "abs": _absolute,
    "min": lambda *operands: (min(low for low, _ in operands), min(high for _, high in operands)),
    "max": lambda *operands: (max(low for low, _ in operands), max(high for _, high in operands)),
    "pow": _power,
    "float": lambda of: of,
    "lshift": _not_negative_if_all_are,
    "rshift": lambda left, right: NOT_NEGATIVE if left[0] >= 0 else ANY,
    "and": _and,
    "or": _not_negative_if_all_are,
    "xor": _not_negative_if_all_are,
    "where": lambda condition, left, right: (min(left[0], right[0]), max(left[1], right[1])),
    **{op: _rounded(op) for op in ROUNDING},
}
