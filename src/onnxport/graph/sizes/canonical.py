"""Canonical forms of size expressions: sums of products, with the simplifications that hold for all integers.

Floats are computed in Python's order, because their rounding depends on it. Only a quotient of integers that is rounded
to an integer is computed with integers, which is the same for all sizes (below 2**51).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from onnxport.graph.sizes.expr import Operand, SizeExpr, apply, in_order, node, parts, set_form
from onnxport.graph.sizes.forms import (
    MAX_PRODUCTS,
    Atom,
    Form,
    Sum,
    as_sum,
    constant_of,
    divided,
    in_one_order,
    of_atom,
    of_number,
    remainder,
)
from onnxport.graph.sizes.logic import compared, inverted, joined, sides
from onnxport.graph.sizes.numeric import COMPARISONS, compute
from onnxport.graph.sizes.post_order import post_order
from onnxport.graph.sizes.quotients import rounded, square_root

# A power with a larger exponent is not multiplied out.
LARGEST_EXPONENT = 8
# A shift by this many bits or more is not turned into a power of two.
MAX_SHIFTED = 62


def canonical(expr: Operand) -> Operand:
    """The expression in its canonical form: a number if it is the same for all sizes."""
    return expr if not isinstance(expr, SizeExpr) else expression(form_of(expr))


def exact(op: str, *operands: Operand) -> Operand:
    """The result of an operator: a number only if it is the same for all sizes, not just at all points."""
    found = node(op, *operands)
    if not isinstance(found, SizeExpr) or found.at.count(found.at[0]) != len(found.at):
        return apply(op, *operands)
    simple = canonical(found)
    return found if isinstance(simple, SizeExpr) else simple


def terms(expr: Operand) -> Sum:
    """An integer expression as a sum of products."""
    return as_sum(form_of(expr))


def form_of(expr: Operand) -> Form:
    """The canonical form of an expression."""
    if not isinstance(expr, SizeExpr):
        return of_number(expr)
    for part in in_order(expr, lambda of: () if of.form is not None else parts(of)):
        if part.form is None:
            set_form(part, _form(part))
    return cast("Form", expr.form)


def _form(expr: SizeExpr) -> Form:
    """The form of an expression, given the forms of its operands."""
    if expr.is_leaf:
        atom = Atom(expr.op, (), expr.kind, leaf=expr)
        return of_atom(atom) if expr.kind is int else atom
    operands = [of.form if isinstance(of, SizeExpr) else of_number(of) for of in expr.operands]
    numbers = [number for number in map(constant_of, operands) if number is not None]
    if len(numbers) == len(operands):
        return of_number(compute(expr.op, expr.kind, *numbers))
    rules = INTEGER_RULES if expr.kind is int else BOOL_RULES if expr.kind is bool else FLOAT_RULES
    rule = rules.get(expr.op)
    found = rule(expr, operands) if rule is not None else None
    return found if found is not None else _atom(expr.op, operands, expr)


def _atom(op: str, operands: Sequence[Form], expr: SizeExpr) -> Form:
    atom = Atom(op, tuple(operands), expr.kind)
    return of_atom(atom) if expr.kind is int else atom


# Rules: the form of an expression from those of its operands; None if there is no simpler one.


def _extremum(expr: SizeExpr, operands: Sequence[Form]) -> Form:
    return extremum(expr.op, [as_sum(form) for form in operands])


def extremum(op: str, operands: Sequence[Sum]) -> Sum:
    """Nested minima become one; an operand that is never the minimum is dropped. The same for maxima."""
    flat: list[Form] = []
    numbers: list[int] = []
    for form in operands:
        atom = form.atom
        is_same = atom is not None and atom.op == op and len(atom.parts) < MAX_PRODUCTS
        for part in atom.parts if atom is not None and is_same else (form,):
            number = constant_of(part)
            if isinstance(number, int):
                numbers.append(number)
            else:
                flat.append(part)
    if numbers:
        flat.append(of_number(min(numbers) if op == "min" else max(numbers)))
    distinct = in_one_order(flat)
    distinct = tuple(form for form in distinct if not any(_decides(op, other, form) for other in distinct))
    return as_sum(distinct[0]) if len(distinct) == 1 else of_atom(Atom(op, distinct, int))


def _decides(op: str, form: Form, other: Form) -> bool:
    """Whether one form is a minimum or maximum whatever the other is."""
    if form is other:
        return False
    return form.bounds[1] <= other.bounds[0] if op == "min" else form.bounds[0] >= other.bounds[1]


def _pow(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    exponent = constant_of(operands[1])
    if not isinstance(exponent, int) or not 0 <= exponent <= LARGEST_EXPONENT:
        return None
    result = Sum({(): 1})
    for _ in range(exponent):
        result = result * as_sum(operands[0])
    return result


def _shift(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    count = constant_of(operands[1])
    if not isinstance(count, int) or not 0 <= count < MAX_SHIFTED:
        return None
    of = as_sum(operands[0])
    return of.times(1 << count) if expr.op == "lshift" else divided(of, Sum({(): 1 << count}))


def _bits(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    """A mask of the lowest bits is a remainder; operands are sorted."""
    left, right = (as_sum(form) for form in operands)
    if left.is_constant:
        left, right = right, left
    mask = right.constant + 1
    if expr.op == "and" and right.is_constant and mask > 1 and mask & (mask - 1) == 0:
        return remainder(left, Sum({(): mask}))
    return of_atom(Atom(expr.op, tuple(sorted((left, right), key=lambda form: form.key)), int))


def _abs(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    return as_sum(operands[0]) if operands[0].bounds[0] >= 0 else None


def _round(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    """Rounding an integer, a quotient of integers or the root of one."""
    of = operands[0]
    if isinstance(of, Sum) or of.kind is bool:
        return as_sum(of) if len(operands) == 1 or (constant_of(operands[1]) or 0) >= 0 else None
    if expr.op in ("floor", "trunc"):
        root = square_root(of)
        if root is not None:
            return of_atom(Atom("isqrt", (root,), int))
    op = expr.op
    if op == "trunc" and of.bounds[0] >= 0:
        op = "floor"
    return rounded(op, of)


def _where(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    """Equal choices are one; a choice of the larger or smaller operand is a maximum or minimum."""
    condition, left, right = operands
    number = constant_of(condition)
    if number is not None:
        return _side(expr, left if number else right)
    if left.key == right.key:
        return _side(expr, left)
    if isinstance(condition, Atom) and condition.op in ("ne", "not"):
        condition, left, right = inverted(condition), right, left
    if expr.kind is int and isinstance(condition, Atom) and condition.op == "gt" and len(condition.parts) == 1:
        difference, pair = as_sum(condition.parts[0]), (as_sum(left), as_sum(right))
        for op, distance in (("max", pair[0] - pair[1]), ("min", pair[1] - pair[0])):
            # With 1 more, the condition is >= instead of >.
            if distance in (difference, difference.plus(-1)):
                return extremum(op, pair)
    return _atom("where", (condition, left, right), expr)


def _side(expr: SizeExpr, side: Form) -> Form | None:
    """A choice if it has the kind of the expression, else None."""
    if expr.kind is int:
        return as_sum(side)
    return side if isinstance(side, Atom) and side.kind is expr.kind else None


def _comparison(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    if not all(isinstance(form, Sum) for form in operands):
        return None
    return compared(expr.op, as_sum(operands[0]), as_sum(operands[1]))


def _not(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    of = operands[0]
    if isinstance(of, Sum):
        return compared("eq", of, Sum({}))
    return inverted(of) if of.kind is bool else Atom("eq", (of, of_number(0.0)), bool)


def _joined(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    return joined({"min": "and", "max": "or"}.get(expr.op, expr.op), [cast("Atom", form) for form in operands])


def _same(expr: SizeExpr, operands: Sequence[Form]) -> Form | None:
    """float() of a float."""
    return operands[0] if isinstance(operands[0], Atom) and operands[0].kind is float else None


INTEGER_RULES: dict[str, Callable[[SizeExpr, Sequence[Form]], Form | None]] = {
    "add": lambda expr, operands: as_sum(operands[0]) + as_sum(operands[1]),
    "sub": lambda expr, operands: as_sum(operands[0]) - as_sum(operands[1]),
    "neg": lambda expr, operands: -as_sum(operands[0]),
    "mul": lambda expr, operands: as_sum(operands[0]) * as_sum(operands[1]),
    "floordiv": lambda expr, operands: divided(as_sum(operands[0]), as_sum(operands[1])),
    "mod": lambda expr, operands: remainder(as_sum(operands[0]), as_sum(operands[1])),
    "min": _extremum,
    "max": _extremum,
    "pow": _pow,
    "lshift": _shift,
    "rshift": _shift,
    **dict.fromkeys(("and", "or", "xor"), _bits),
    "abs": _abs,
    **dict.fromkeys(("ceil", "floor", "trunc", "round"), _round),
    "where": _where,
}
BOOL_RULES: dict[str, Callable[[SizeExpr, Sequence[Form]], Form | None]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    "not": _not,
    **dict.fromkeys(("and", "or", "xor", "min", "max"), _joined),
    "where": _where,
}
FLOAT_RULES: dict[str, Callable[[SizeExpr, Sequence[Form]], Form | None]] = {"float": _same, "where": _where}


# Back to expressions


def expression(form: Form) -> Operand:
    """The expression of a form, or a number."""
    made: dict[int, Operand] = {}
    for part in forms_in_order(form):
        made[id(part)] = _sum(part, made) if isinstance(part, Sum) else _applied(part, made)
    return made[id(form)]


def forms_in_order(root: Form) -> Iterator[Form]:
    """Every form once, operands first."""
    return post_order(root, _parts_of)


def _parts_of(form: Form) -> Sequence[Form]:
    return form.parts if isinstance(form, Atom) else [atom for product in form.terms for atom in product]


def _applied(atom: Atom, made: dict[int, Operand]) -> Operand:
    if atom.leaf is not None:
        return atom.leaf
    if atom.number is not None:
        return atom.number
    if atom.op in COMPARISONS and len(atom.parts) == 1:
        return _compared(atom, made)
    operands = [made[id(part)] for part in atom.parts]
    if len(operands) > 2 and atom.op != "where":
        result = operands[0]
        for operand in operands[1:]:
            result = node(atom.op, result, operand)
        return result
    return node(atom.op, *operands)


def _compared(atom: Atom, made: dict[int, Operand]) -> Operand:
    """A comparison with positive products on its left and negative ones, negated, on its right."""
    op, left, right = sides(atom)
    return node(op, _sum(left, made), _sum(right, made))


def _sum(of: Sum, made: dict[int, Operand]) -> Operand:
    """A sum with the positive products first, so that no negation is needed unless all are negative."""
    result: Operand | None = None
    for product, factor in sorted(of.in_order(), key=lambda term: term[1] < 0):
        term: Operand = abs(factor)
        if product:
            term = made[id(product[0])]
            for atom in product[1:]:
                term = node("mul", term, made[id(atom)])
            term = term if abs(factor) == 1 else node("mul", term, abs(factor))
        if result is None:
            result = term if factor > 0 else node("neg", term)
        else:
            result = node("add" if factor > 0 else "sub", result, term)
    return 0 if result is None else result
