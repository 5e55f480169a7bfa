"""Cholesky factorisation, and QR by Householder reflections. A Loop runs over the columns."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.loops import Step, loop
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.linalg import matrices as m
from onnxport.ops.linalg.lu import substituted

# Cholesky


def lower_factor(g: Builder, a: Value) -> Value:
    """L of a = L L^T, from the lower triangle. For a matrix that is not positive definite its diagonal has NaN or 0."""
    rows, columns = m.row_indices(g, a), m.column_indices(g, a)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        (a,) = states
        column = m.column(g, a, iteration)
        scaled = g.op("Div", column, g.op("Sqrt", m.row(g, column, iteration)))
        under = m.chosen(g, g.op("Greater", rows, iteration), scaled)
        left = g.op("Sub", a, g.op("MatMul", under, m.turned(g, under)))
        return Step([g.op("Where", g.op("Equal", columns, iteration), scaled, left)])

    ((result,), _) = loop(g, m.width(a), [a], step)
    return m.lower_triangle(g, result)


@converter("aten::cholesky", "aten::linalg_cholesky", "aten::linalg_cholesky_ex")
def cholesky(g: Builder, self: Value, upper: bool = False, check_errors: bool = False) -> list[Value]:
    """aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    lower = lower_factor(g, m.turned(g, self) if upper else self)
    result = m.turned(g, lower) if upper else lower
    if len(g.outputs) == 1:
        return [result]
    failed = g.op("Not", g.op("Greater", m.diagonal(g, lower), 0))
    return [result, m.first_failure(g, failed)]


@converter("aten::cholesky_solve")
def cholesky_solve(g: Builder, self: Value, input2: Value, upper: bool = False) -> Value:
    """aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    turned = m.turned(g, input2)
    low, high = (turned, input2) if upper else (input2, turned)
    return substituted(g, high, substituted(g, low, self, upper=False), upper=True)


@converter("aten::cholesky_inverse")
def cholesky_inverse(g: Builder, self: Value, upper: bool = False) -> Value:
    """aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    size = m.width(self)
    half = substituted(g, self, m.identity(g, size, size, self.dtype), upper=upper)
    turned = m.turned(g, half)
    return g.op("MatMul", half, turned) if upper else g.op("MatMul", turned, half)


# QR


def reflected(g: Builder, a: Value) -> tuple[Value, Value]:
    """R with the reflection vectors below it, and their factors, with LAPACK's signs."""
    rows, columns = m.row_indices(g, a), m.column_indices(g, a)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        (a,) = states
        below, here = g.op("Greater", rows, iteration), g.op("Equal", rows, iteration)
        column = m.column(g, a, iteration)
        head = m.row(g, column, iteration)
        under = m.chosen(g, below, column)
        flat = emit.equal(g, emit.reduce(g, "ReduceMax", g.op("Abs", under), [a.rank - 2], keepdims=True), 0)
        joined = g.op("Where", g.op("Less", rows, iteration), m.zero(g, a), column)
        length = emit.reduce(g, "ReduceL2", joined, [a.rank - 2], keepdims=True)
        signed = g.op("Where", g.op("Less", head, 0), length, g.op("Neg", length))
        top = g.op("Where", flat, head, signed)
        factor = g.op("Where", flat, m.zero(g, a), g.op("Div", g.op("Sub", top, head), signed))
        tail = g.op("Where", flat, m.zero(g, a), g.op("Div", under, g.op("Sub", head, top)))
        vector = g.op("Where", here, g.constant(1, a.dtype), tail)
        along = m.chosen(g, g.op("Greater", columns, iteration), g.op("MatMul", m.turned(g, vector), a))
        left = g.op("Sub", a, g.op("Mul", g.op("Mul", factor, vector), along))
        stored = g.op("Where", below, tail, g.op("Where", here, top, column))
        after = g.op("Where", g.op("Equal", columns, iteration), stored, left)
        return Step([after], [emit.squeeze(g, factor, [a.rank - 2, a.rank - 1])])

    (a,), (factors,) = loop(g, m.depth(a), [a], step)
    return a, m.last(g, factors)


def reflect(g: Builder, packed: Value, factors: Value, x: Value, *, backwards: bool) -> Value:
    """The reflections applied to x in order, or in reverse order if ``backwards``."""
    rows, count = m.row_indices(g, packed), m.dims(factors)[-1]
    packed, x = m.common_batch(g, packed, x)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        (x,) = states
        index = m.counted_down(g, count, iteration) if backwards else iteration
        under = m.chosen(g, g.op("Greater", rows, index), m.column(g, packed, index))
        vector = g.op("Where", g.op("Equal", rows, index), g.constant(1, x.dtype), under)
        factor = emit.unsqueeze(g, m.column(g, factors, index), [factors.rank])
        along = g.op("MatMul", m.turned(g, vector), x)
        return Step([g.op("Sub", x, g.op("Mul", g.op("Mul", factor, vector), along))])

    ((result,), _) = loop(g, count, [x], step)
    return result


def orthogonal(g: Builder, packed: Value, factors: Value, columns: Size) -> Value:
    """The first columns of Q."""
    start = m.identity(g, m.height(packed), columns, packed.dtype, m.dims(packed)[:-2])
    return reflect(g, packed, factors, start, backwards=True)


@converter("aten::geqrf")
def geqrf(g: Builder, self: Value) -> tuple[Value, Value]:
    """aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    return reflected(g, self)


@converter("aten::linalg_qr", "aten::qr")
def qr(
    g: Builder, A: Value | None = None, mode: str = "reduced", self: Value | None = None, some: bool = True
) -> tuple[Value, Value]:
    """aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)"""
    a = A if A is not None else self
    assert a is not None
    complete = mode == "complete" or not some
    packed, factors = reflected(g, a)
    upper = m.upper_triangle(g, packed if complete else m.rows_until(g, packed, m.depth(a)))
    if mode == "r":
        return g.constant(torch.zeros(0), a.dtype), upper
    return orthogonal(g, packed, factors, m.height(a) if complete else m.depth(a)), upper


@converter("aten::linalg_householder_product", "aten::orgqr")
def householder_product(
    g: Builder,
    input: Value | None = None,
    tau: Value | None = None,
    self: Value | None = None,
    input2: Value | None = None,
) -> Value:
    """aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    packed, factors = input if input is not None else self, tau if tau is not None else input2
    assert packed is not None and factors is not None
    return orthogonal(g, packed, factors, m.width(packed))


@converter("aten::ormqr")
def ormqr(g: Builder, self: Value, input2: Value, input3: Value, left: bool = True, transpose: bool = False) -> Value:
    """aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if left:
        return reflect(g, self, input2, input3, backwards=not transpose)
    return m.turned(g, reflect(g, self, input2, m.turned(g, input3), backwards=transpose))
