"""Numbers that Python computed from sizes, as expressions in the sizes at hand.

A candidate must give the number in every capture. Simple ones come first: a size, an affine function of one or two, a
part of one, a remainder, the next multiple, the same of a product, sum, difference, minimum or maximum of two, an
affine function of a part, the side of a square, and any of these within a bound. Each family is kept small: among very
many candidates one would fit by chance. Those that fit know how they are computed, so that they can be told apart at
sizes that were not captured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onnxport.graph.dims import OPERATORS, Dim, Size, larger, root, smaller, values

Kind: TypeAlias = "Callable[[Dim, Sequence[Dim]], Iterator[Size]]"

LARGEST_FACTOR = 64
LARGEST_OFFSET = 8
LARGEST_DIVISOR = 128
LARGEST_STEP = 32
PARTS = (2, 3, 4, 7, 8, 14, 16, 32)
# How many tokens may stand beside those of a square grid.
MOST_TOKENS = 2
TOLERANCE = 1e-6
# How many expressions that fit are looked at where it is known what they have to come to elsewhere.
MOST_FITS = 1000


def solve(number: Dim, bases: Sequence[Dim]) -> Size | None:
    """The simplest expression for the number, which knows how it was made; None if none fits."""
    return next(iter(fitting(number, bases)), None)


def fitting(number: Dim, bases: Sequence[Dim], most: int = 1) -> list[Size]:
    """Expressions that give the number in every capture, up to ``most``: of the simplest kind that has any."""
    kind = simplest_kind(number, bases)
    return [] if kind is None else fitting_of(kind, number, bases, most)


def simplest_kind(number: Dim, bases: Sequence[Dim]) -> Kind | None:
    """The simplest kind of expressions of which one gives the number in every capture."""
    return next((kind for kind in KINDS if fitting_of(kind, number, bases)), None)


def fitting_of(kind: Kind, number: Dim, bases: Sequence[Dim], most: int = 1) -> list[Size]:
    """Expressions of a kind that give the number in every capture, up to ``most``."""
    return list(itertools.islice((size for size in kind(number, bases) if size == number), most))


def simple(number: Dim, bases: Sequence[Dim]) -> Size | None:
    """The number as a multiple of a base, a product of two, or a base and some more or less."""
    multiples = (base * (number.at[0] // base.at[0]) for base in bases if base.at[0])
    products = (left * right for left, right in itertools.combinations(bases, 2))
    shifted = (base + (number.at[0] - base.at[0]) for base in bases)
    return next((size for size in itertools.chain(multiples, products, shifted) if size == number), None)


def accepted(number: Dim, bases: Sequence[Dim], accepts: Callable[[Size], bool]) -> Size | None:
    """The first expression of any kind that gives the number in every capture and is ``accepted`` besides."""
    candidates = itertools.chain(*(kind(number, bases) for kind in (*KINDS, _clipped)))
    fits = itertools.islice((size for size in candidates if size == number), MOST_FITS)
    return next((fit for fit in fits if accepts(fit)), None)


def evaluate(size: Size, leaves: Mapping[Dim, int]) -> int | None:
    """What an expression comes to where its leaves have these values; None for one that nobody knows."""
    if isinstance(size, int):
        return size
    if size in leaves:
        return leaves[size]
    if size.how is None:
        return None
    name, left, right = size.how
    sides = evaluate(left, leaves), evaluate(right, leaves)
    if sides[0] is None or sides[1] is None or (name in ("Div", "Mod") and not sides[1]):
        return None
    return OPERATORS[name](sides[0], sides[1])


def _sizes(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    return iter(bases)


def _simple(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """Affine functions of a size or two, products, minima and maxima."""
    for base in bases:
        yield from _affine(number, base)
    yield from _pairs(bases)
    for left, right in itertools.permutations(bases, 2):
        yield from _linear(number, left, right)


def _partial(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """Parts of a size and what is left of them, a bound, and affine functions of two sizes taken together."""
    for base in bases:
        yield from _bounded(number, base)
        yield from _multiples(number, base)
        yield from _parts(number, base)
        yield from _remainders(number, base)
    for pair in _pairs(bases):
        yield from _affine(number, pair)


def _sides(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """The side of a square grid of a size's elements, or all but some tokens: the root rounded down, up or to the
    nearest."""
    for base, tokens in itertools.product(bases, range(MOST_TOKENS + 1)):
        grid = base - tokens if tokens else base
        yield from (root(grid), root(grid - 1) + 1, (root(grid * 4) + 1) // 2)


def _of_sides(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """The square of a side, and affine functions and parts of it."""
    for side in _sides(number, bases):
        if isinstance(side, Dim):
            yield side * side
            yield from _affine(number, side)
            yield from _parts(number, side)


def _nested(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """Parts of two sizes taken together, and products of parts."""
    for pair in _pairs(bases):
        yield from _parts(number, pair)
        yield from _remainders(number, pair)
        yield from _bounded(number, pair)
    parts = [part for base in bases for part in (base, *_whole_parts(base))]
    yield from (left * right for left, right in itertools.combinations_with_replacement(parts, 2))


def _stepped(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """factor * ((base + added) // divisor) + offset: what is as long as several whole steps of a size."""
    for divisor in range(2, LARGEST_STEP + 1):
        for base, added in itertools.product(bases, range(divisor)):
            steps = (base + added if added else base) // divisor
            if isinstance(steps, Dim):
                yield from _affine(number, steps)


KINDS: tuple[Kind, ...] = (_sizes, _simple, _partial, _sides, _of_sides, _nested, _stepped)


def _pairs(bases: Sequence[Dim]) -> Iterator[Dim]:
    found: list[Size] = []
    for left, right in itertools.combinations(bases, 2):
        found += [left * right, left + right, left - right, right - left, smaller(left, right), larger(left, right)]
    found += [base * base for base in bases]
    return (size for size in found if isinstance(size, Dim))


def _affine(number: Dim, base: Dim) -> Iterator[Size]:
    """factor * base + offset."""
    (x, y), (other_x, other_y) = _two_captures(base, number)
    if x == other_x or (other_y - y) % (other_x - x):
        return
    factor = (other_y - y) // (other_x - x)
    offset = y - factor * x
    # Two captures are on some line always: a line through zero, or of slope one, is more than that.
    if 0 < abs(factor) <= LARGEST_FACTOR and (offset == 0 or factor == 1 or _is_telling(base)):
        product = base * factor if factor != 1 else base
        yield product + offset if offset else product


def _linear(number: Dim, left: Dim, right: Dim) -> Iterator[Size]:
    """factor * left + other * right + offset, from captures that determine it and one more."""
    if len(number.at) < 4 or left == right:
        return
    for other in range(1, 5):
        rest = number - right * other
        if isinstance(rest, Dim):
            for found in _affine(rest, left):
                yield found + right * other


def _is_telling(base: Dim) -> bool:
    """Whether the captures have enough values of a base to tell functions of it apart."""
    return len(set(base.at)) > 2


def _two_captures(base: Dim, number: Dim) -> tuple[tuple[int, int], tuple[int, int]]:
    """What base and number are in the two captures in which the base differs most."""
    pairs = sorted(zip(base.at, number.at, strict=True))
    return pairs[0], pairs[-1]


def _parts(number: Dim, base: Dim) -> Iterator[Size]:
    """(factor * base + added) // divisor + offset; with added = divisor - 1 that rounds up."""
    (x, y), (other_x, other_y) = _two_captures(base, number)
    run, rise = other_x - x, other_y - y
    for factor, divisor in itertools.product((1, 2, 3, 5), range(2, LARGEST_FACTOR + 1)):
        if math.gcd(factor, divisor) > 1 or abs(factor * run - divisor * rise) > divisor:
            continue
        for added in (0, divisor - 1, *range(1, divisor - 1)):
            offset = y - (factor * x + added) // divisor
            if offset and (abs(offset) > LARGEST_OFFSET or not _is_telling(base)):
                continue
            pairs = zip(base.at, number.at, strict=True)
            if all((factor * at + added) // divisor + offset == wanted for at, wanted in pairs):
                part = base if factor == 1 else base * factor
                part = (part + added if added else part) // divisor
                yield part + offset if offset else part


def _multiples(number: Dim, base: Dim) -> Iterator[Size]:
    """The next multiple of a divisor, or the one before, and how far it is."""
    for divisor in range(2, LARGEST_DIVISOR + 1):
        pairs = list(zip(base.at, number.at, strict=True))
        if all(wanted == at - at % divisor for at, wanted in pairs):
            yield base - base % divisor
        if all(wanted == at + -at % divisor for at, wanted in pairs):
            yield base + (-base) % divisor


def _remainders(number: Dim, base: Dim) -> Iterator[Size]:
    if min(number.at) < 0:
        return
    for divisor in range(max(2, max(number.at) + 1), LARGEST_DIVISOR + 1):
        pairs = list(zip(base.at, number.at, strict=True))
        if all(wanted == at % divisor for at, wanted in pairs):
            yield base % divisor
        if all(wanted == -at % divisor for at, wanted in pairs):
            yield (-base) % divisor


def _whole_parts(base: Dim) -> list[Dim]:
    """What strides, patches and windows leave of a size."""
    parts = [(base + added) // divisor for divisor in PARTS for added in (0, divisor - 1)]
    return [part for part in parts if isinstance(part, Dim)]


def _bounded(number: Dim, base: Dim, least: int = 2) -> Iterator[Size]:
    """A function of a size up to a bound, or from one on, that several captures have met."""
    for bound, combine in ((max(number.at), smaller), (min(number.at), larger)):
        met = {at for at, wanted in zip(base.at, number.at, strict=True) if wanted == bound}
        inside = [place for place, wanted in enumerate(number.at) if wanted != bound]
        if len(met) < least:
            continue
        yield combine(base, bound)
        if len(inside) > 1:
            part, of = _at(number, inside), _at(base, inside)
            for found in (*_affine(part, of), *_parts(part, of)):
                yield combine(_again(found, base, len(number.at)), bound)


def _clipped(number: Dim, bases: Sequence[Dim]) -> Iterator[Size]:
    """A function of a size, or of two taken together, with a bound that one capture has met."""
    for base in (*bases, *_pairs(bases)):
        yield from _bounded(number, base, least=1)


def _at(size: Dim, places: Sequence[int]) -> Dim:
    return Dim(tuple(size.at[place] for place in places))


def _again(found: Size, base: Dim, captures: int) -> Size:
    """The expression that was found in some captures of a base, in all of them."""
    if isinstance(found, int):
        return found
    if found.how is None:
        return base
    name, left, right = found.how
    sides = [_again(side, base, captures) for side in (left, right)]
    numbers = map(OPERATORS[name], values(sides[0], captures), values(sides[1], captures))
    return Dim(tuple(numbers), (name, sides[0], sides[1]))


@dataclass(frozen=True)
class Scaled:
    """factor * function(base / divisor) + offset."""

    factor: float
    function: str
    base: Size
    divisor: Size = 1
    offset: float = 0.0

    def at(self, leaves: Mapping[Dim, int]) -> float | None:
        """What it comes to where its leaves have these values."""
        sides = evaluate(self.base, leaves), evaluate(self.divisor, leaves)
        if sides[0] is None or not sides[1] or (sides[0] <= 0 and self.function != "Identity"):
            return None
        return self.factor * FUNCTIONS[self.function](sides[0] / sides[1]) + self.offset


def is_close(found: float | None, wanted: float | None) -> bool:
    """Whether two floats are the same but for rounding; of unknown ones nothing is said."""
    return found is None or (wanted is not None and math.isclose(found, wanted, rel_tol=TOLERANCE))


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "Identity": lambda x: x,
    "Reciprocal": lambda x: 1 / x,
    "Sqrt": math.sqrt,
    "ReciprocalSqrt": lambda x: 1 / math.sqrt(x),
    "Log": math.log,
    "Exp": math.exp,
}


def solve_float(numbers: Sequence[float], bases: Sequence[Dim]) -> Scaled | None:
    """The number as a multiple of a simple function of a size, of a product or quotient of two, or of one less or more;
    an affine function of a size; or an integer."""
    nearby = [base + offset for base in bases for offset in (-1, 1)]
    products = [left * right for left, right in itertools.combinations_with_replacement(bases, 2)]
    for base in (*bases, *nearby, *products):
        found = _scaled(numbers, base, 1)
        if found is not None:
            return found
    for over, under in itertools.permutations((*bases, *nearby), 2):
        found = _scaled(numbers, over, under)
        if found is not None:
            return found
    if all(number.is_integer() for number in map(float, numbers)):
        whole = solve(Dim(tuple(int(number) for number in numbers)), bases)
        return None if whole is None else Scaled(1.0, "Identity", whole)
    return next((found for base in bases if (found := _affine_float(numbers, base)) is not None), None)


def _scaled(numbers: Sequence[float], over: Size, under: Size) -> Scaled | None:
    sides = values(over, len(numbers)), values(under, len(numbers))
    if min(map(min, sides)) <= 0:
        return None
    at = [left / right for left, right in zip(*sides, strict=True)]
    if len(set(at)) == 1:
        return None
    for name, function in FUNCTIONS.items():
        if name == "Exp" and max(at) > LARGEST_FACTOR:
            continue
        results = [function(x) for x in at]
        if 0 in results:
            continue
        factors = [number / result for number, result in zip(numbers, results, strict=True)]
        if all(math.isclose(factor, factors[0], rel_tol=TOLERANCE) for factor in factors):
            return Scaled(_rounded(factors[0]), name, over, under)
    return None


def _affine_float(numbers: Sequence[float], base: Dim) -> Scaled | None:
    if not _is_telling(base):
        return None
    pairs = sorted(zip(base.at, numbers, strict=True))
    (x, y), (other_x, other_y) = pairs[0], pairs[-1]
    factor = (other_y - y) / (other_x - x)
    offset = _rounded(y - factor * x)
    if factor and all(math.isclose(factor * at + offset, wanted, rel_tol=TOLERANCE) for at, wanted in pairs):
        return Scaled(_rounded(factor), "Identity", base, 1, offset)
    return None


def _rounded(factor: float) -> float:
    """Without the rounding errors of its computation, where a short number is meant."""
    short = round(factor, 6)
    return short if math.isclose(short, factor, rel_tol=1e-12) else factor
