"""Expressions that are equal have one canonical form, and it computes what they compute."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxport.graph.sizes import SizeExpr, apply, compare, evaluate, size_of, where
from onnxport.graph.sizes.canonical import canonical, form_of, terms
from onnxport.graph.sizes.expr import node
from tests.graph.sizes.trees import (
    Tree,
    Unwanted,
    bools,
    expression,
    floats,
    in_python,
    integers,
    leaves,
    points,
    random_tree,
)

LEAVES = leaves()
N, M, K = LEAVES["n"], LEAVES["m"], LEAVES["k"]


@settings(max_examples=150, deadline=None)
@given(integers | floats | bools, points)
def test_the_canonical_form_computes_the_same(tree: Tree, point: dict[str, int]) -> None:
    try:
        wanted = in_python(tree, point)
    except Unwanted:
        return
    expr = expression(tree, LEAVES)
    found = canonical(expr)
    values = {LEAVES[name]: number for name, number in point.items()}
    assert evaluate(found, values) == wanted
    assert form_of(found).key == form_of(expr).key


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_the_canonical_form_of_deeper_trees(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(30):
        tree = random_tree(draw, draw.choice(["int", "float", "bool"]), 5)
        expr = expression(tree, LEAVES)
        found = canonical(expr)
        assert form_of(found).key == form_of(expr).key, tree
        for point in (
            {"n": draw.randrange(300), "m": draw.randrange(300), "k": draw.randrange(-99, 99)} for _ in range(9)
        ):
            try:
                wanted = in_python(tree, point)
            except Unwanted:
                continue
            assert evaluate(found, {LEAVES[name]: number for name, number in point.items()}) == wanted, tree


products = st.lists(st.sampled_from(["n", "m", "k"]), max_size=3)
polynomials = st.lists(st.tuples(st.integers(-5, 5), products), min_size=1, max_size=5)


def polynomial(of: list[tuple[int, list[str]]], order: random.Random) -> Tree:
    """A polynomial as a tree, with its terms and factors in any order and grouped in any way."""

    def grouped(op: str, parts: list[Tree]) -> Tree:
        parts = order.sample(parts, len(parts))
        while len(parts) > 1:
            place = order.randrange(len(parts) - 1)
            parts[place : place + 2] = [(op, parts[place], parts[place + 1])]
        return parts[0]

    split = [
        (part, factors) for number, factors in of for part in ((number - 2, 2) if order.random() < 0.3 else (number,))
    ]
    return grouped("add", [grouped("mul", [number, *factors]) for (number, factors) in split])


@settings(max_examples=150, deadline=None)
@given(polynomials, st.randoms(use_true_random=False))
def test_polynomials_have_one_form(of: list[tuple[int, list[str]]], order: random.Random) -> None:
    first, second = (expression(polynomial(of, order), LEAVES) for _ in range(2))
    assert terms(first) == terms(second)
    assert form_of(first).key == form_of(second).key


@settings(max_examples=150, deadline=None)
@given(polynomials, polynomials)
def test_polynomials_that_are_equal_everywhere_have_equal_forms(left: Any, right: Any) -> None:
    order = random.Random(0)
    sides = [expression(polynomial(of, order), LEAVES) for of in (left, right)]
    grid = [{N: n, M: m, K: k} for n in range(1, 60, 13) for m in range(2, 50, 11) for k in range(-30, 30, 11)]
    equal = all(evaluate(sides[0], point) == evaluate(sides[1], point) for point in grid)
    assert equal == (terms(sides[0]) == terms(sides[1]))


def test_leaves_that_are_equal_are_one() -> None:
    read = size_of(object(), 0, N.at)
    assert terms(node("sub", node("mul", N, M), node("mul", M, read))) == terms(0)


def ceil_by_hand(x: Any, divisor: int) -> Any:
    return -((-x) // divisor)


@pytest.mark.parametrize(
    "left, right",
    [
        (((N + 1) // 2 + 1) // 2, (N + 3) // 4),
        ((N // 3 + 5) // 4, (N + 15) // 12),
        ((K // 3 - 5) // 4, (K - 15) // 12),
        ((4 * N + 7) // 8, (N + 1) // 2),
        ((2 * N + M) // 2, N + M // 2),
        ((N * M * 6) // (M * 3), 2 * N),
        ((N * M + K) // M, N + K // M),
        (K // -2, (-K) // 2),
        ((6 * N) % 3, 0),
        ((7 * N + M + 9) % 3, (N + M) % 3),
        ((K % 12 + 1) % 4, (K + 1) % 4),
        ((4 * K + 6) % 8, 4 * ((K + 1) % 2) + 2),
        (ceil_by_hand(N, 3), (N + 2) // 3),
        (math.ceil(N / 3), (N + 2) // 3),
        (math.ceil(K / M), -((-K) // M)),
        (math.floor(K / 3), K // 3),
        (math.trunc(N / 3), N // 3),
        (math.trunc((N - 3) / 2 + 1), math.trunc(((N - 3) / 2) + 1)),
        (math.floor((K - 3) / 2 + 1), (K - 1) // 2),
        (math.trunc(N * 0.5), N // 2),
        (math.floor(K * 1.5), 3 * K // 2),
        (math.floor(K / 0.75), 4 * K // 3),
        (math.floor(float(1) * K), K),
        (math.trunc(N**0.5), apply("isqrt", N)),
        (apply("floor", apply("sqrt", apply("float", N))), apply("isqrt", N)),
        (apply("min", apply("min", N, M), apply("min", K, N)), apply("min", K, apply("min", M, N))),
        (apply("max", apply("max", K, 3), 7), apply("max", 7, K)),
        (apply("max", N, 0), N),
        (apply("abs", N * M), N * M),
        (where(compare("gt", N, 400), 400, N), apply("min", N, 400)),
        (where(compare("lt", N, 400), N, 400), apply("min", N, 400)),
        (where(compare("le", 400, N), N, 400), apply("max", N, 400)),
        (where(compare("ge", K, M), M, K), apply("min", K, M)),
        (where(compare("eq", K, M), N, N), N),
        (where(apply("not", compare("eq", K, M)), N, M), where(compare("eq", M, K), M, N)),
        (compare("ge", K, 3), compare("lt", 4, 2 * K)),
        (apply("not", compare("lt", K, M)), compare("le", M, K)),
        (compare("ne", 2 * K, 2 * M), apply("not", compare("eq", M, K))),
        (N << 3, 8 * N),
        (K >> 2, K // 4),
        (K & 7, K % 8),
        (N**2, N * N),
        ((N % 4) % 8, N % 4),
        ((N % 4) // 8, 0),
    ],
)  # fmt: skip
def test_one_form(left: Any, right: Any) -> None:
    assert form_of(left).key == form_of(right).key


@pytest.mark.parametrize(
    "expr",
    [
        math.trunc((N - 300) / 2),  # a negative quotient is rounded up
        math.trunc(K / 2),
        math.floor(N * 0.3),
        math.floor(N / 3 * 3),
        N / 3 + M / 3,
    ],
)
def test_floats_are_left_as_they_are(expr: SizeExpr) -> None:
    found = canonical(expr)
    assert isinstance(found, SizeExpr)
    assert (found.op, found.at) == (expr.op, expr.at)


def test_long_chains_and_shared_parts() -> None:
    x: Any = N
    for count in range(5000):
        x = ((x + M) // 2 + count) * 3 % 1001
    assert canonical(x) == x
    y: Any = N
    for _ in range(10_000):
        y = (y * 3 + 1) // 2 % 100_003
    assert canonical(y) == y
    z: Any = M
    for _ in range(60):
        z = z + z
    assert terms(z) == terms(M).times(2**60)
    w: Any = 0
    for count in range(1, 600):
        w = w + N // (count + 1)
    assert canonical(w) == w
    largest: Any = N
    decided: Any = compare("lt", N, M)
    for count in range(200):
        largest = apply("max", largest, (M + count) % 1009)
        decided = apply("xor", decided, compare("lt", M % (count + 2), K))
        decided = apply("or", decided, compare("eq", N % (count + 2), 1000))
    assert canonical(largest) == largest and canonical(decided) == decided
    power: Any = N + M + K + 1
    for _ in range(6):
        power = power * (N + M + K + 1)
    assert canonical(power) == power
