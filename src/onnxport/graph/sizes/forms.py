"""Sums of products with integer factors: the canonical form of integer expressions.

Anything else (a quotient, a minimum, a leaf) is an ``Atom``: an operator and the forms of its operands. Nothing here
recurses, and all arithmetic is exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TypeAlias

from onnxport.graph.sizes.bounds import Bounds, bounds_of, bounds_of_leaf, bounds_of_product, limited
from onnxport.graph.sizes.expr import AXIS, SizeExpr
from onnxport.graph.sizes.numeric import Kind, Number

# A sum with more products is neither multiplied out nor added to.
MAX_PRODUCTS = 64
NUMBER = "number"


class Atom:
    """A factor of a product. ``key`` identifies it: equal atoms have equal keys, in every process.

    A leaf has its expression as ``leaf``, a constant float or bool its value as ``number``.
    """

    __slots__ = ("bounds", "key", "kind", "leaf", "number", "op", "order", "parts")
    key: bytes

    def __init__(
        self,
        op: str,
        parts: tuple[Form, ...],
        kind: Kind,
        *,
        leaf: SizeExpr | None = None,
        number: Number | None = None,
    ) -> None:
        self.op = op
        self.parts = parts
        self.kind = kind
        self.leaf = leaf
        self.number = number
        # Leaves are identified by their values at the points, as expressions are.
        what = (op, number, [part.key for part in parts]) if leaf is None else leaf.at
        content = repr((kind.__name__, what))
        self.key = blake2b(content.encode(), digest_size=16).digest()
        if leaf is not None:
            self.bounds = bounds_of_leaf(leaf)
        elif number is not None:
            self.bounds = limited((number, number))
        else:
            self.bounds = bounds_of(op, kind, [part.bounds for part in parts])
        # The order: axes by name, other leaves by size, then computed atoms.
        if leaf is None:
            self.order: tuple[object, ...] = (2, op, self.key)
        else:
            self.order = (0, leaf.operands[0], self.key) if op == AXIS else (1, op, self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


Product: TypeAlias = "tuple[Atom, ...]"


class Sum:
    """Products of atoms, in order, each with its integer factor; the empty product is the constant."""

    __slots__ = ("_bounds", "_key", "terms")

    def __init__(self, terms: Mapping[Product, int]) -> None:
        self.terms = {product: factor for product, factor in terms.items() if factor}
        self._key: bytes | None = None
        self._bounds: Bounds | None = None

    @property
    def key(self) -> bytes:
        if self._key is None:
            content = repr([([atom.key for atom in product], factor) for product, factor in self.in_order()])
            self._key = blake2b(content.encode(), digest_size=16).digest()
        return self._key

    @property
    def bounds(self) -> Bounds:
        """The least and the greatest value."""
        if self._bounds is None:
            low: Number = 0
            high: Number = 0
            for atoms, factor in self.terms.items():
                term = limited((factor, factor))
                for atom in atoms:
                    term = limited(bounds_of_product(term, atom.bounds))
                low, high = low + term[0], high + term[1]
            self._bounds = limited((low, high))
        return self._bounds

    def in_order(self) -> list[tuple[Product, int]]:
        """The products in canonical order; the constant is the last."""
        return sorted(self.terms.items(), key=lambda term: (-len(term[0]), [atom.order for atom in term[0]]))

    @property
    def constant(self) -> int:
        return self.terms.get((), 0)

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and () in self.terms)

    @property
    def factors(self) -> list[int]:
        """The factors of all but the constant."""
        return [factor for product, factor in self.terms.items() if product]

    @property
    def atom(self) -> Atom | None:
        """The atom, if the sum is a single one."""
        if len(self.terms) != 1:
            return None
        ((product, factor),) = self.terms.items()
        return product[0] if factor == 1 and len(product) == 1 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and other.terms == self.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Sum) -> Sum:
        terms = dict(self.terms)
        for product, factor in other.terms.items():
            terms[product] = terms.get(product, 0) + factor
        found = Sum(terms)
        return found if len(found.terms) <= MAX_PRODUCTS else of_atom(Atom("add", _sorted(self, other), int))

    def __neg__(self) -> Sum:
        return self.times(-1)

    def __sub__(self, other: Sum) -> Sum:
        return self + (-other)

    def __mul__(self, other: Sum) -> Sum:
        if len(self.terms) * len(other.terms) > MAX_PRODUCTS:
            return of_atom(Atom("mul", _sorted(self, other), int))
        terms: dict[Product, int] = {}
        for left, factor in self.terms.items():
            for right, other_factor in other.terms.items():
                product = tuple(sorted((*left, *right), key=_order))
                terms[product] = terms.get(product, 0) + factor * other_factor
        return Sum(terms)

    def times(self, number: int) -> Sum:
        return Sum({product: factor * number for product, factor in self.terms.items()})

    def plus(self, number: int) -> Sum:
        return Sum({**self.terms, (): self.constant + number})

    def split(self, divisor: int) -> tuple[Sum, Sum]:
        """Quotient and remainder: multiples of a positive divisor, and the rest of the constant."""
        quotient = {product: factor // divisor for product, factor in self.terms.items() if factor % divisor == 0}
        quotient[()] = self.constant // divisor
        return Sum(quotient), self - Sum(quotient).times(divisor)

    def common_factor(self) -> int:
        """The greatest common divisor of the factors of all but the constant; 0 if there are none."""
        return math.gcd(*self.factors)


Form: TypeAlias = "Sum | Atom"


def _order(atom: Atom) -> tuple[object, ...]:
    return atom.order


def _sorted(*forms: Form) -> tuple[Form, ...]:
    return tuple(sorted(forms, key=lambda form: form.key))


def in_one_order(forms: Iterable[Form]) -> tuple[Form, ...]:
    """Each form once, in the order of keys."""
    return tuple(form for _, form in sorted({form.key: form for form in forms}.items()))


def of_atom(atom: Atom) -> Sum:
    low, high = atom.bounds
    return Sum({(): low} if low == high and isinstance(low, int) else {(atom,): 1})


def of_number(number: Number) -> Form:
    return _integer(number) if type(number) is int else Atom(NUMBER, (), type(number), number=number)


@functools.lru_cache(maxsize=1000)
def _integer(number: int) -> Sum:
    return Sum({(): number})


def constant_of(form: Form) -> Number | None:
    """The number, if the form is a constant."""
    if isinstance(form, Atom):
        return form.number
    return form.constant if form.is_constant else None


def as_sum(form: Form) -> Sum:
    """A bool counts as 0 or 1."""
    if isinstance(form, Sum):
        return form
    return of_atom(form) if form.number is None else Sum({(): int(form.number)})


# Division


# Divisions by constants are joined as long as the divisor stays below this.
LARGEST_DIVISOR = 1 << 31


def divided(left: Sum, right: Sum) -> Sum:
    """The quotient rounded down, as Python's ``//``. Multiples of the divisor are divided exactly.

    If the divisor is 0, at which Python raises an error, the form has no meaning.
    """
    left, right = _cancelled(left, right)
    if not right.is_constant:
        outside, inside = _multiples(left, right)
        return outside if _is_below(inside, right) else outside + of_atom(Atom("floordiv", (inside, right), int))
    divisor = right.constant
    if divisor < 0:
        left, divisor = -left, -divisor
    if divisor == 0:
        return Sum({})
    outside, inside = left.split(divisor)
    if inside.is_constant:
        return outside
    common = math.gcd(divisor, inside.common_factor())
    rest = {product: factor // common for product, factor in inside.terms.items()}
    return outside + _quotient(Sum(rest), divisor // common)


def _quotient(inside: Sum, divisor: int) -> Sum:
    """The quotient of a sum that has nothing in common with its divisor: (x//a + c)//b is (x + c*a)//(a*b)."""
    if max(inside.factors) < 0:  # rounding down -x is rounding up x
        return -divided((-inside).plus(divisor - 1), Sum({(): divisor}))
    low, high = inside.bounds
    if math.isfinite(low) and math.isfinite(high) and low // divisor == high // divisor:
        return Sum({(): int(low // divisor)})
    alone = inside.plus(-inside.constant).atom
    if alone is not None and alone.op == "floordiv":
        inner = constant_of(alone.parts[1])
        if isinstance(inner, int) and inner * divisor < LARGEST_DIVISOR:
            return divided(as_sum(alone.parts[0]).plus(inside.constant * inner), Sum({(): inner * divisor}))
    return of_atom(Atom("floordiv", (inside, Sum({(): divisor})), int))


def remainder(left: Sum, right: Sum) -> Sum:
    """Python's ``%``, which has the sign of the divisor. Multiples of the divisor are dropped."""
    if _is_below(left, right):
        return left
    if not right.is_constant:
        inside = _multiples(left, right)[1]
        return inside if _is_below(inside, right) else of_atom(Atom("mod", (inside, right), int))
    divisor = right.constant
    if divisor < 0:
        return -remainder(-left, -right)
    if divisor == 0:
        return Sum({})
    left = _without_remainders(left, divisor)
    inside = Sum({product: _nearest(factor, divisor) for product, factor in left.terms.items() if product})
    constant = left.constant % divisor
    if inside.is_constant:
        return Sum({(): constant})
    common = math.gcd(divisor, inside.common_factor())
    rest = Sum({product: factor // common for product, factor in inside.terms.items()}).plus(constant // common)
    divisor //= common
    found = rest if _is_below(rest, Sum({(): divisor})) else of_atom(Atom("mod", (rest, Sum({(): divisor})), int))
    return found.times(common).plus(constant % common)


def _is_below(left: Sum, right: Sum) -> bool:
    """Whether a number is from 0 to below the divisor."""
    return not left.terms or (left.bounds[0] >= 0 and left.bounds[1] < right.bounds[0])


def _without_remainders(left: Sum, divisor: int) -> Sum:
    """Replaces x % (a*b) by x, if the result is divided by a and only the remainder is needed."""
    for product, factor in left.terms.items():
        if len(product) == 1 and product[0].op == "mod":
            inner = constant_of(product[0].parts[1])
            if isinstance(inner, int) and inner and inner * factor % divisor == 0:
                rest = Sum({other: count for other, count in left.terms.items() if other != product})
                return _without_remainders(rest + as_sum(product[0].parts[0]).times(factor), divisor)
    return left


def _nearest(factor: int, divisor: int) -> int:
    """The factor nearest to 0 that is equal modulo the divisor."""
    rest = factor % divisor
    return rest - divisor if 2 * rest > divisor else rest


def _cancelled(left: Sum, right: Sum) -> tuple[Sum, Sum]:
    """Numerator and denominator without their common factors."""
    if right.is_constant or not left.terms:
        return left, right
    common = list(next(iter(right.terms)))
    for product in (*right.terms, *left.terms):
        common = _shared(common, product)
    number = math.gcd(*left.terms.values(), *right.terms.values())
    if max(right.terms.values()) < 0:
        number = -number
    return _without(left, common, number), _without(right, common, number)


def _shared(atoms: list[Atom], product: Product) -> list[Atom]:
    rest = list(product)
    found = []
    for atom in atoms:
        if atom in rest:
            rest.remove(atom)
            found.append(atom)
    return found


def _without(of: Sum, atoms: Iterable[Atom], number: int) -> Sum:
    terms: dict[Product, int] = {}
    for product, factor in of.terms.items():
        rest = list(product)
        for atom in atoms:
            rest.remove(atom)
        terms[tuple(rest)] = factor // number
    return Sum(terms)


def _multiples(left: Sum, right: Sum) -> tuple[Sum, Sum]:
    """The products that a divisor, if it is a single product, divides exactly, divided by it; and the rest."""
    if len(right.terms) != 1:
        return (Sum({(): 1}), Sum({})) if left == right else (Sum({}), left)
    ((atoms, number),) = right.terms.items()
    whole = {
        product: factor
        for product, factor in left.terms.items()
        if factor % number == 0 and len(_shared(list(atoms), product)) == len(atoms)
    }
    rest = {product: factor for product, factor in left.terms.items() if product not in whole}
    return _without(Sum(whole), atoms, number), Sum(rest)
