"""Size expressions compute what Python computes, at the points they were made for and at others."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings

from onnxport.graph.sizes import (
    SizeExpr,
    apply,
    axis,
    compare,
    evaluate,
    leaves_of,
    number_of,
    size_of,
    where,
)
from onnxport.graph.sizes.bounds import bounds, is_nonnegative
from tests.graph.sizes.trees import (
    PYTHON,
    Tree,
    Unwanted,
    bools,
    expression,
    floats,
    in_python,
    integers,
    leaves,
    points,
)

LEAVES = leaves()
N, M, K = LEAVES["n"], LEAVES["m"], LEAVES["k"]


def same(found: Any, wanted: Any) -> bool:
    return type(found) is type(wanted) and found == wanted


@settings(max_examples=150, deadline=None)
@given(integers | floats | bools, points)
def test_evaluate_is_python(tree: Tree, point: dict[str, int]) -> None:
    expr = expression(tree, LEAVES)
    try:
        wanted = in_python(tree, point)
    except Unwanted:
        return
    found = evaluate(expr, {LEAVES[name]: number for name, number in point.items()})
    # min(2, 3.0) is an int in Python and not for us: what it is does not depend on the sizes.
    assert found == wanted and (not isinstance(wanted, float) or isinstance(found, float))
    low, high = bounds(expr)
    assert low <= wanted <= high


@settings(max_examples=60, deadline=None)
@given(integers | floats | bools)
def test_numbers_at_the_points_are_of_one_kind(tree: Tree) -> None:
    expr = expression(tree, LEAVES, apply)
    if isinstance(expr, SizeExpr):
        assert {type(number) for number in expr.at} == {expr.kind}


def test_what_is_the_same_at_every_point_is_a_number_only_if_its_form_says_so() -> None:
    n = axis("n", [4, 8, 12])
    assert apply("mod", apply("mul", n, 4), 2) == 0 and apply("sub", n, n) == 0
    found = apply("mod", n, 4)
    assert isinstance(found, SizeExpr) and found.at == (0, 0, 0)


def test_kinds_are_told_apart() -> None:
    points = ((0, 1), (0.0, 1.0), (False, True))
    assert len({SizeExpr(at) for at in points}) == 3
    assert [SizeExpr(at).kind for at in points] == [int, float, bool]
    assert same(N - N, 0) and same((N - N) / 1, 0.0) and same(compare("ge", N, 0), True)
    assert same(compare("eq", N, N) + 0, 1)
    assert compare("lt", N, M) != apply("trunc", compare("lt", N, M))
    assert (N / 1).kind is float and N / 1 != N


@pytest.mark.parametrize(
    "op, operands, wanted",
    [
        ("floordiv", (1, 0), (0, 0)),
        ("mod", (1, 0), (0, 0)),
        ("truediv", (1, 0), (math.inf, math.inf)),
        ("truediv", (-1, 0), (-math.inf, -math.inf)),
        ("truediv", (0, 0), (math.nan, math.nan)),
        ("log", (0,), (-math.inf, -math.inf)),
        ("log2", (-1,), (math.nan, math.nan)),
        ("sqrt", (-1,), (math.nan, math.nan)),
        ("isqrt", (-4,), (0, 0)),
        ("pow", (-8, 0.5), (math.nan, math.nan)),
        ("pow", (0, -1), (math.inf, math.inf)),
        ("exp", (1e9,), (math.inf, math.inf)),
        ("float", (10**400,), (math.inf, math.inf)),
        ("lshift", (1, -1), (0, 0)),
        ("ceil", (math.nan,), (0, 0)),
        ("floor", (math.inf,), (0, 0)),
    ],
)
def test_where_python_raises(op: str, operands: tuple[Any, ...], wanted: tuple[float, float]) -> None:
    with pytest.raises((ArithmeticError, ValueError, AssertionError)):
        result = PYTHON[op](*operands)
        assert not isinstance(result, complex)
    leaf = number_of("x", (operands[0], operands[0]))
    assert str(expression((op, "x", *operands[1:]), {"x": leaf}).at) == str(wanted)


def test_python_operators() -> None:
    assert math.ceil(N / 3) == apply("ceil", apply("truediv", N, 3))
    assert apply("pow", 2, N) == 2**N and apply("pow", N, 0.5) == N**0.5
    assert round(N * 0.3, 1).at == tuple(round(n * 0.3, 1) for n in N.at)
    assert apply("mod", 7, M) == 7 % M and apply("sub", 3, N) == 3 - N and apply("floordiv", 9, M) == 9 // M
    assert N << 2 == N * 4 and N >> 1 == N // 2 and N & 3 == N % 4
    assert apply("log", N, 2).at == tuple(math.log(n, 2) for n in N.at)
    assert where(compare("gt", N, 400), 400, N) == apply("min", N, 400)
    assert where(True, N, M) is N
    with pytest.raises(TypeError):
        N + "x"
    with pytest.raises(AttributeError):
        N.at = (1, 2)


def test_leaves_and_evaluation() -> None:
    value = object()
    read = size_of(value, 1, tuple(range(10, 18)))
    expr = (N + read) * N // 2
    assert leaves_of(expr) == [N, read]
    assert evaluate(expr, {N: 3}) is None
    assert evaluate(expr, {N: 3, read: 5}) == 12
    assert is_nonnegative(expr) and not is_nonnegative(expr - 1) and not is_nonnegative(K)


def test_copies() -> None:
    expr = (N + M) // 2
    assert copy.deepcopy(expr) is expr
    again = pickle.loads(pickle.dumps(expr))
    assert again == expr and (again.op, again.operands) == (expr.op, expr.operands)


def test_long_chains_and_shared_parts() -> None:
    """Twenty thousand operations do not overflow the stack, and what is shared is visited once."""
    x: Any = N
    for count in range(10_000):
        x = (x + M) % (1000 + count)
        x = x * 0.5 if count % 1000 == 999 else x + 1
    assert evaluate(x, {N: 5, M: 2}) is not None
    assert len(leaves_of(x)) == 2 and is_nonnegative(x)
    y: Any = N
    for _ in range(60):
        y = y + y
    assert evaluate(y, {N: 1}) == 2**60
    assert axis("n", N.at) == N
