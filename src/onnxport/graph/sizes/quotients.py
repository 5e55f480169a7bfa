"""Floats that are quotients of integers, and that round to the result of integer division.

A float a/b is exact if a/b is an integer. Otherwise it is so close to the exact quotient (for sizes, which are below
2**51) that no integer is between them. The same holds for its sums with integers and its quotients by integers, and for
products and sums of two such floats if both divisors are powers of two.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from onnxport.graph.sizes.forms import Atom, Form, Sum, divided

# Numerator and denominator.
Quotient: TypeAlias = "tuple[Sum, Sum]"

ONE = Sum({(): 1})
# Fractions of larger numbers may be inexact.
LARGEST = 1 << 20


def rounded(op: str, form: Form) -> Sum | None:
    """``floor`` or ``ceil`` of a quotient of integers, and any rounding of one that is an integer."""
    found = _quotient(form)
    if found is None:
        return None
    over, under = found
    if under == ONE:
        return over
    if op == "floor":
        return divided(over, under)
    return -divided(-over, under) if op == "ceil" else None


def square_root(form: Form) -> Sum | None:
    """The integer, if the form is its square root."""
    if not isinstance(form, Atom):
        return None
    is_root = form.op == "sqrt" or (form.op == "pow" and isinstance(half := form.parts[1], Atom) and half.number == 0.5)
    if not is_root:
        return None
    of = _quotient(form.parts[0])
    return of[0] if of is not None and of[1] == ONE else None


def _quotient(root: Form) -> Quotient | None:
    """Numerator and denominator of a form; None if it is not such a quotient."""
    known: dict[int, Quotient | None] = {}
    stack: list[tuple[Form, bool]] = [(root, False)]
    while stack:
        form, ready = stack.pop()
        if isinstance(form, Sum):
            known[id(form)] = form, ONE
        elif form.number is not None:
            known[id(form)] = _fraction(form.number)
        elif form.op not in ("float", "add", "sub", "neg", "mul", "truediv"):
            known[id(form)] = None
        elif ready:
            known[id(form)] = _combined(form, [known[id(part)] for part in form.parts])
        elif id(form) not in known:
            stack.append((form, True))
            stack.extend([(part, False) for part in form.parts])
    return known[id(root)]


def _fraction(number: float) -> Quotient | None:
    if not math.isfinite(number):
        return None
    over, under = number.as_integer_ratio()
    return _of_small_numbers(Sum({(): over}), Sum({(): under}))


def _of_small_numbers(over: Sum, under: Sum) -> Quotient | None:
    factors = (*over.terms.values(), *under.terms.values())
    return (over, under) if max(map(abs, factors), default=0) <= LARGEST else None


def _combined(form: Atom, operands: list[Quotient | None]) -> Quotient | None:
    left, right = operands[0], operands[-1]
    if left is None or right is None:
        return None
    if form.op == "float":
        return left
    if form.op == "neg":
        return -left[0], left[1]
    if form.op == "truediv":
        return _of_small_numbers(left[0] * right[1], left[1] * right[0]) if right[0].terms else None
    exact = _is_power_of_two(left[1]) and _is_power_of_two(right[1])
    if form.op == "mul":
        return _of_small_numbers(left[0] * right[0], left[1] * right[1]) if exact else None
    if not exact and ONE not in (left[1], right[1]):
        return None
    scaled = right[0] * left[1]
    over = left[0] * right[1] + (scaled if form.op == "add" else -scaled)
    return _of_small_numbers(over, left[1] * right[1])


def _is_power_of_two(of: Sum) -> bool:
    number = of.constant
    return of.is_constant and number > 0 and number & (number - 1) == 0
