"""Expressions for numbers that Python computed: the right one among those that fit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from onnxport.graph.dims import Dim, size
from onnxport.graph.solve import evaluate, fitting, solve, solve_float

POINTS = [(4, 10), (9, 25), (5, 13), (14, 38), (21, 7), (16, 64)]
N, M = (size(column) for column in zip(*POINTS, strict=True))
BASES = [base for base in (N, M) if isinstance(base, Dim)]

NUMBERS: dict[str, Callable[[int, int], int]] = {
    "size": lambda n, m: m,
    "affine": lambda n, m: 3 * n - 2,
    "product": lambda n, m: n * m,
    "sum of multiples": lambda n, m: 2 * n + 3 * m + 1,
    "part": lambda n, m: n // 2,
    "rounded up": lambda n, m: -(-m // 4),
    "part of a multiple": lambda n, m: 3 * m // 2,
    "smaller": min,
    "next multiple": lambda n, m: m + -m % 8,
    "up to the next multiple": lambda n, m: -n % 8,
    "remainder": lambda n, m: m % 6,
    "bound": lambda n, m: min(n, 14),
    "part of a product": lambda n, m: n * m // 4 + 1,
    "several steps": lambda n, m: 2 * ((m + 1) // 2) - 1,
    "steps of three": lambda n, m: 4 * (n // 3) + 2,
    "product of parts": lambda n, m: (n // 2) * (m // 4),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_solved(name: str) -> None:
    function = NUMBERS[name]
    found = solve(Dim(tuple(function(n, m) for n, m in POINTS)), BASES)
    assert found is not None
    assert evaluate(found, {BASES[0]: 12, BASES[1]: 31}) == function(12, 31)


def test_what_fits_nothing_is_not_solved() -> None:
    assert solve(Dim(tuple(int(1000 * math.sin(n * m)) for n, m in POINTS)), BASES) is None


def test_fits_of_the_simplest_kind_only() -> None:
    assert fitting(BASES[0], BASES, 10) == [BASES[0]]
    assert len(fitting(Dim((2, 4, 2)), [Dim((4, 9, 5))], 10)) > 1


@pytest.mark.parametrize(
    "function",
    [
        lambda n, m: n / m,
        lambda n, m: (n - 1) / (m - 1),
        lambda n, m: 0.5 * n + 0.25,
        lambda n, m: math.sqrt(n * m),
        lambda n, m: float(n // 2),
        lambda n, m: 2 * math.pi / m,
        lambda n, m: math.log(n),
    ],
)
def test_floats(function: Callable[[int, int], float]) -> None:
    assert solve_float([function(n, m) for n, m in POINTS], BASES) is not None


def test_a_float_of_no_known_kind() -> None:
    assert solve_float([math.sin(n) for n, _ in POINTS], BASES) is None
