"""Canonical forms of conditions: comparisons of integers are ``difference > 0``, ``== 0`` or ``!= 0``."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.graph.sizes.forms import MAX_PRODUCTS, Atom, Form, Sum, as_sum, in_one_order, of_number


def compared(op: str, left: Sum, right: Sum) -> Atom:
    """The comparison of two integers."""
    if op in ("eq", "ne"):
        return _equal(op, left - right)
    difference = left - right if op in ("gt", "ge") else right - left
    return _positive(difference.plus(1) if op in ("ge", "le") else difference)


def _positive(difference: Sum) -> Atom:
    low, high = difference.bounds
    if low > 0 or high <= 0:
        return _truth(low > 0)
    common = difference.common_factor()
    # g*x + c > 0 is x > -c/g, which for integers is x > (-c)//g.
    rest = {product: factor // common for product, factor in difference.terms.items() if product}
    return Atom("gt", (Sum({**rest, (): -(-difference.constant // common)}),), bool)


def _equal(op: str, difference: Sum) -> Atom:
    if difference.is_constant:
        return _truth((difference.constant == 0) == (op == "eq"))
    common = difference.common_factor()
    if difference.constant % common or difference.bounds[0] > 0 or difference.bounds[1] < 0:
        return _truth(op == "ne")
    if difference.in_order()[0][1] < 0:
        common = -common
    return Atom(op, (Sum({product: factor // common for product, factor in difference.terms.items()}),), bool)


def sides(comparison: Atom) -> tuple[str, Sum, Sum]:
    """A comparison of a difference with 0, as one of two sums without negative factors; a constant is on the right."""
    difference = as_sum(comparison.parts[0])
    left = Sum({product: factor for product, factor in difference.terms.items() if factor > 0})
    right = left - difference
    if left.is_constant and not right.is_constant:
        return {"gt": "lt"}.get(comparison.op, comparison.op), right, left
    return comparison.op, left, right


def inverted(condition: Atom) -> Atom:
    """The opposite of a condition."""
    if condition.number is not None:
        return _truth(not condition.number)
    if condition.op == "not":
        part = condition.parts[0]
        assert isinstance(part, Atom)
        return part
    if condition.op in ("eq", "ne"):
        return Atom("ne" if condition.op == "eq" else "eq", condition.parts, bool)
    if len(condition.parts) == 1 and condition.op == "gt":
        return _positive(Sum({(): 1}) - as_sum(condition.parts[0]))
    return Atom("not", (condition,), bool)


def joined(op: str, operands: Sequence[Atom]) -> Atom:
    """``and``, ``or`` and ``xor`` of conditions: nested ones are flattened, equal conditions are kept once."""
    flat: list[Form] = []
    for condition in operands:
        is_same = condition.op == op and op != "xor" and len(condition.parts) < MAX_PRODUCTS
        flat += condition.parts if is_same else (condition,)
    if op == "xor":
        return Atom(op, tuple(sorted(flat, key=lambda form: form.key)), bool)
    decides = op == "or"
    numbers = [form.number for form in flat if isinstance(form, Atom) and form.number is not None]
    if any(bool(number) == decides for number in numbers):
        return _truth(decides)
    distinct = in_one_order(form for form in flat if not (isinstance(form, Atom) and form.number is not None))
    if len(distinct) == 1:
        (only,) = distinct
        assert isinstance(only, Atom)
        return only
    return Atom(op, distinct, bool)


def _truth(value: bool) -> Atom:
    found = of_number(value)
    assert isinstance(found, Atom)
    return found
