"""Numbers that Python computed from sizes, as expressions in the sizes at hand.

A candidate must give the number in every capture. The simplest one is taken: a size, an affine function of one, a part
of one, a bound, a sum, difference or product of two, a product of parts. Each family is kept small: among very many
candidates one would fit by chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnxport.graph.dims import Dim, Size, larger, smaller, values

LARGEST_FACTOR = 64
LARGEST_OFFSET = 8
PARTS = (2, 3, 4, 7, 8, 14, 16, 32)
TOLERANCE = 1e-6


def solve(number: Dim, bases: Sequence[Dim]) -> Size | None:
    """The number as arithmetic on the bases, which knows how it was made; None if no expression fits."""
    candidates = itertools.chain(
        (base for base in bases),
        _each(bases, lambda base: _affine(number, base)),
        _each(bases, lambda base: _parts(number, base)),
        _each(bases, lambda base: _bounded(number, base)),
        _of_two(number, bases),
        _products([part for base in bases for part in (base, *_whole_parts(base))]),
    )
    return next((candidate for candidate in candidates if candidate == number), None)


def _each(bases: Sequence[Dim], candidates: Callable[[Dim], Iterable[Size]]) -> Iterator[Size]:
    for base in bases:
        yield from candidates(base)


def _affine(number: Dim, base: Dim) -> Iterator[Size]:
    """factor * base + offset."""
    (x, y), (other_x, other_y) = _two_captures(base, number)
    if x == other_x or (other_y - y) % (other_x - x):
        return
    factor = (other_y - y) // (other_x - x)
    offset = y - factor * x
    # Two captures are on some line always: a line through zero, or of slope one, is more than that.
    if 0 < abs(factor) <= LARGEST_FACTOR and (offset == 0 or factor == 1 or _is_telling(base)):
        yield base * factor + offset if offset else base * factor


def _is_telling(base: Dim) -> bool:
    """Whether the captures have enough values of a base to tell functions of it apart."""
    return len(set(base.at)) > 2


def _two_captures(base: Dim, number: Dim) -> tuple[tuple[int, int], tuple[int, int]]:
    """What base and number are in two captures in which the base differs, if there are such."""
    pairs = list(zip(base.at, number.at, strict=True))
    return pairs[0], next((pair for pair in pairs if pair[0] != pairs[0][0]), pairs[0])


def _parts(number: Dim, base: Dim) -> Iterator[Size]:
    """(base + added) // divisor + offset; with added = divisor - 1 that rounds up."""
    for divisor in range(2, LARGEST_FACTOR + 1):
        for added in (0, divisor - 1, *range(1, divisor - 1)):
            part = (base + added if added else base) // divisor
            offset = number.at[0] - values(part, len(number.at))[0]
            if offset == 0:
                yield part
            elif abs(offset) <= LARGEST_OFFSET and isinstance(part, Dim) and _is_telling(base):
                yield part + offset


def _whole_parts(base: Dim) -> list[Dim]:
    """What strides, patches and windows leave of a size."""
    parts = [(base + added) // divisor for divisor in PARTS for added in (0, divisor - 1)]
    return [part for part in parts if isinstance(part, Dim)]


def _of_two(number: Dim, sizes: Sequence[Dim]) -> Iterator[Size]:
    for left, right in itertools.product(sizes, repeat=2):
        for result in (left * right, left + right, left - right):
            yield result
            offset = number.at[0] - values(result, len(number.at))[0]
            if abs(offset) == 1:
                yield result + offset


def _products(parts: Sequence[Dim]) -> Iterator[Size]:
    return (left * right for left, right in itertools.combinations_with_replacement(parts, 2))


def _bounded(number: Dim, base: Dim) -> Iterator[Size]:
    yield smaller(base, max(number.at))
    yield larger(base, min(number.at))


@dataclass(frozen=True)
class Scaled:
    """factor * function(base)."""

    factor: float
    function: str
    base: Size


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "Identity": lambda x: x,
    "Reciprocal": lambda x: 1 / x,
    "Sqrt": math.sqrt,
    "ReciprocalSqrt": lambda x: 1 / math.sqrt(x),
    "Log": math.log,
    "Exp": math.exp,
}


def solve_float(numbers: Sequence[float], bases: Sequence[Dim]) -> Scaled | None:
    """The number as a multiple of a simple function of a size, of a product of two, or of one less or more."""
    nearby = [base + offset for base in bases for offset in (-1, 1)]
    products = [left * right for left, right in itertools.combinations_with_replacement(bases, 2)]
    for base in (*bases, *nearby, *products):
        at = values(base, len(numbers))
        if min(at) <= 0:
            continue
        for name, function in FUNCTIONS.items():
            if name == "Exp" and max(at) > LARGEST_FACTOR:
                continue
            results = [function(x) for x in at]
            if 0 in results:
                continue
            factors = [number / result for number, result in zip(numbers, results, strict=True)]
            if all(math.isclose(factor, factors[0], rel_tol=TOLERANCE) for factor in factors):
                return Scaled(factors[0], name, base)
    return None
