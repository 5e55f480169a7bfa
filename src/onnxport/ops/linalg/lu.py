"""Linear equations by elimination: LU with partial pivoting, substitution, determinants and inverses.

A Loop runs over the columns, so the graph does not grow with the matrix, and sizes may be dynamic.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.loops import Step, loop
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.linalg import matrices as m

# The core


def eliminated(g: Builder, a: Value, steps: Size) -> tuple[Value, Value]:
    """The LU form of a matrix: its first columns eliminated, with multipliers instead of zeros, and its rows swapped.

    The second result has in its last dimension the row that each step has swapped with its own, counted from 0.
    """
    rows, columns = m.row_indices(g, a), m.column_indices(g, a)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        (a,) = states
        upper = g.op("Less", rows, iteration)
        size = g.op("Where", upper, g.constant(-1, a.dtype), g.op("Abs", m.column(g, a, iteration)))
        pivot = g.op("ArgMax", size, axis=a.rank - 2, keepdims=1)
        a = swapped(g, a, rows, iteration, pivot)
        top, under = m.row(g, a, iteration), g.op("Greater", rows, iteration)
        head = m.column(g, top, iteration)
        divisor = g.op("Where", emit.equal(g, head, 0), g.constant(1, a.dtype), head)
        factor = m.chosen(g, under, g.op("Div", m.column(g, a, iteration), divisor))
        rest = m.chosen(g, g.op("Greater", columns, iteration), top)
        left = g.op("Sub", a, g.op("Mul", factor, rest))
        stored = g.op("And", under, g.op("Equal", columns, iteration))
        return Step([g.op("Where", stored, factor, left)], [emit.squeeze(g, pivot, [a.rank - 2, a.rank - 1])])

    (a,), (pivots,) = loop(g, steps, [a], step)
    return a, m.last(g, pivots)


def swapped(g: Builder, a: Value, rows: Value, first: Value, second: Value) -> Value:
    """Swap two rows of each matrix: ``first`` is one index, ``second`` one for each matrix."""
    here, there = g.op("Equal", rows, first), g.op("Equal", rows, second)
    other = emit.reduce(g, "ReduceSum", m.chosen(g, there, a), [a.rank - 2], keepdims=True)
    return g.op("Where", here, other, g.op("Where", there, m.row(g, a, first), a))


def substituted(g: Builder, a: Value, b: Value, *, upper: bool, unit: bool = False) -> Value:
    """The solution x of a x = b for triangular matrices; the other triangle of ``a`` is ignored."""
    a, b = m.common_batch(g, a, b)
    rows, count = m.row_indices(g, a), m.height(a)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        (b,) = states
        index = m.counted_down(g, count, iteration) if upper else iteration
        solved, factors = m.row(g, b, index), m.column(g, a, index)
        if not unit:
            solved = g.op("Div", solved, m.row(g, factors, index))
        rest = m.chosen(g, g.op("Less" if upper else "Greater", rows, index), factors)
        left = g.op("Sub", b, g.op("Mul", rest, solved))
        return Step([g.op("Where", g.op("Equal", rows, index), solved, left)])

    ((result,), _) = loop(g, count, [b], step)
    return result


def solved(g: Builder, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """The solution x of a x = b, the LU form of a and its pivots, by elimination of both together."""
    a, b = m.common_batch(g, a, b)
    size = m.width(a)
    both, pivots = eliminated(g, m.beside(g, a, b), size)
    upper, right = m.columns_from(g, both, 0, size), m.columns_from(g, both, size, size + m.width(b))
    return substituted(g, upper, right, upper=True), upper, pivots


def inverted(g: Builder, a: Value) -> tuple[Value, Value]:
    """The inverse and the LU form."""
    size = m.width(a)
    result, lu, _ = solved(g, a, m.identity(g, size, size, a.dtype))
    return result, lu


def permuted(g: Builder, a: Value, pivots: Value, *, backwards: bool = False) -> Value:
    """The rows swapped by the pivots, which count from 1; or swapped back."""
    rows, count = m.row_indices(g, a), m.dims(pivots)[-1]
    others = g.op("Sub", g.cast(pivots, torch.int64), 1)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        index = m.counted_down(g, count, iteration) if backwards else iteration
        other = emit.unsqueeze(g, m.column(g, others, index), [others.rank])
        return Step([swapped(g, states[0], rows, index, other)])

    ((result,), _) = loop(g, count, [a], step)
    return result


def pivots_from_one(g: Builder, pivots: Value) -> Value:
    return g.cast(g.op("Add", pivots, 1), torch.int32)


def singular_at(g: Builder, lu: Value) -> Value:
    """The first step with a zero pivot, counted as in LAPACK."""
    square = m.columns_from(g, m.rows_until(g, lu, m.depth(lu)), 0, m.depth(lu))
    return m.first_failure(g, emit.equal(g, m.diagonal(g, square), 0))


# Determinants


@converter("aten::linalg_det", "aten::det", "aten::_linalg_det")
def det(g: Builder, self: Value | None = None, A: Value | None = None) -> Value | list[Value]:
    """aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    a = self if self is not None else A
    assert a is not None
    if len(g.outputs) == 1 and not m.is_empty(m.dims(a)) and g.runs("Det", a.dtype):
        return g.op("Det", a)
    lu, pivots = eliminated(g, a, m.width(a))
    product = emit.reduce(g, "ReduceProd", m.diagonal(g, lu), [a.rank - 2], keepdims=False)
    result = g.op("Mul", product, _parity(g, pivots, a.dtype))
    return [result, lu, pivots_from_one(g, pivots)] if len(g.outputs) > 1 else result


@converter("aten::slogdet", "aten::linalg_slogdet", "aten::_linalg_slogdet")
def slogdet(g: Builder, self: Value | None = None, A: Value | None = None) -> list[Value]:
    """aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    a = self if self is not None else A
    assert a is not None
    lu, pivots = eliminated(g, a, m.width(a))
    diagonal = m.diagonal(g, lu)
    signs = emit.reduce(g, "ReduceProd", g.op("Sign", diagonal), [a.rank - 2], keepdims=False)
    logarithm = emit.reduce(g, "ReduceSum", g.op("Log", g.op("Abs", diagonal)), [a.rank - 2], keepdims=False)
    sign = g.op("Mul", signs, _parity(g, pivots, a.dtype))
    return [sign, logarithm, lu, pivots_from_one(g, pivots)][: len(g.outputs)]


@converter("aten::logdet")
def logdet(g: Builder, self: Value) -> Value:
    """aten::logdet(Tensor self) -> Tensor"""
    lu, pivots = eliminated(g, self, m.width(self))
    diagonal = m.diagonal(g, lu)
    signs = emit.reduce(g, "ReduceProd", g.op("Sign", diagonal), [self.rank - 2], keepdims=False)
    sign = g.op("Mul", signs, _parity(g, pivots, self.dtype))
    logarithm = emit.reduce(g, "ReduceSum", g.op("Log", g.op("Abs", diagonal)), [self.rank - 2], keepdims=False)
    return g.op("Where", g.op("Less", sign, 0), g.constant(float("nan"), self.dtype), logarithm)


def _parity(g: Builder, pivots: Value, dtype: torch.dtype) -> Value:
    """1 or -1 for an even or odd number of swaps."""
    moved = g.op("Not", g.op("Equal", pivots, emit.counting(g, m.dims(pivots)[-1])))
    signs = g.op("Sub", g.constant(1, dtype), g.op("Mul", g.cast(moved, dtype), 2))
    return emit.reduce(g, "ReduceProd", signs, [pivots.rank - 1], keepdims=False)


# Equations and inverses


@converter("aten::linalg_solve", "aten::linalg_solve_ex", "aten::_linalg_solve_ex")
def solve(g: Builder, A: Value, B: Value, left: bool = True, check_errors: bool = False) -> list[Value]:
    """aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)"""  # noqa: E501
    vector = B.rank == 1 or (A.rank - 1 == B.rank and m.dims(B) == m.dims(A)[:-1])
    right = emit.unsqueeze(g, B, [B.rank]) if vector else B if left else m.turned(g, B)
    result, lu, pivots = solved(g, A if left else m.turned(g, A), right)
    if vector:
        result = emit.squeeze(g, result, [result.rank - 1])
    elif not left:
        result = m.turned(g, result)
    if len(g.outputs) == 1:
        return [result]
    if len(g.outputs) == 2:
        return [result, _own_batch(g, singular_at(g, lu), 1)]
    further = (lu, pivots_from_one(g, pivots), singular_at(g, lu))
    return [result, *(_own_batch(g, value, output) for output, value in enumerate(further, 1))]


def _own_batch(g: Builder, value: Value, output: int) -> Value:
    """Without the dimensions that only the right-hand side has: its first element is taken."""
    extra = value.rank - len(g.outputs[output].shape)
    for _ in range(extra):
        value = g.op("Gather", value, g.constant(0, torch.int64), axis=0)
    return value


@converter("aten::inverse", "aten::linalg_inv", "aten::linalg_inv_ex")
def inverse(
    g: Builder, self: Value | None = None, A: Value | None = None, check_errors: bool = False
) -> Sequence[Value]:
    """aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    a = self if self is not None else A
    assert a is not None
    result, lu = inverted(g, a)
    return [result] if len(g.outputs) == 1 else [result, singular_at(g, lu)]


@converter("aten::linalg_solve_triangular")
def solve_triangular(
    g: Builder, self: Value, B: Value, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"""  # noqa: E501
    if left:
        return substituted(g, self, B, upper=upper, unit=unitriangular)
    result = substituted(g, m.turned(g, self), m.turned(g, B), upper=not upper, unit=unitriangular)
    return m.turned(g, result)


@converter("aten::triangular_solve")
def triangular_solve(
    g: Builder, self: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[Value]:
    """aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)"""  # noqa: E501
    a = m.turned(g, A) if transpose else A
    solution = substituted(g, a, self, upper=upper != transpose, unit=unitriangular)
    return [solution, emit.expand(g, A, g.outputs[1].shape)]


# LU as a result


@converter("aten::linalg_lu_factor", "aten::linalg_lu_factor_ex")
def lu_factor(g: Builder, A: Value, pivot: bool = True, check_errors: bool = False) -> list[Value]:
    """aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)"""  # noqa: E501
    lu, pivots = eliminated(g, A, m.depth(A))
    results = [lu, pivots_from_one(g, pivots)]
    return results if len(g.outputs) == 2 else [*results, singular_at(g, lu)]


@converter("aten::linalg_lu")
def lu(g: Builder, A: Value, pivot: bool = True) -> list[Value]:
    """aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    packed, pivots = eliminated(g, A, m.depth(A))
    return [_permutation(g, packed, pivots_from_one(g, pivots)), *_triangles(g, packed)]


@converter("aten::lu_unpack")
def lu_unpack(
    g: Builder, LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> list[Value]:
    """aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)"""  # noqa: E501
    nothing = g.constant(torch.zeros(0), LU_data.dtype)
    swaps = _permutation(g, LU_data, LU_pivots) if unpack_pivots else nothing
    return [swaps, *(_triangles(g, LU_data) if unpack_data else (nothing, nothing))]


def _permutation(g: Builder, packed: Value, pivots: Value) -> Value:
    """P of A = P L U: the identity with its rows swapped back."""
    size = m.height(packed)
    return permuted(g, m.identity(g, size, size, packed.dtype, m.dims(packed)[:-2]), pivots, backwards=True)


def _triangles(g: Builder, packed: Value) -> tuple[Value, Value]:
    size = m.depth(packed)
    left = m.columns_from(g, packed, 0, size) if size != m.width(packed) else packed
    ones = m.identity(g, m.height(packed), size, packed.dtype)
    lower = g.op("Add", m.lower_triangle(g, left, strict=True), ones)
    return lower, m.upper_triangle(g, m.rows_until(g, packed, size))


@converter("aten::linalg_lu_solve")
def linalg_lu_solve(g: Builder, LU: Value, pivots: Value, B: Value, left: bool = True, adjoint: bool = False) -> Value:
    """aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    if not left:
        return m.turned(g, linalg_lu_solve(g, LU, pivots, m.turned(g, B), adjoint=not adjoint))
    if adjoint:
        a = m.turned(g, LU)
        middle = substituted(g, a, B, upper=False)
        return permuted(g, substituted(g, a, middle, upper=True, unit=True), pivots, backwards=True)
    _, b = m.common_batch(g, LU, B)
    middle = substituted(g, LU, permuted(g, b, pivots), upper=False, unit=True)
    return substituted(g, LU, middle, upper=True)


@converter("aten::lu_solve")
def lu_solve(g: Builder, self: Value, LU_data: Value, LU_pivots: Value) -> Value:
    """aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor"""
    return linalg_lu_solve(g, LU_data, LU_pivots, self)
