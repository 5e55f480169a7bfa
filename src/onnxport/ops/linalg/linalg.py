"""Functions of matrices: powers, the exponential, and equations of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.loops import Step, loop
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.linalg import matrices as m
from onnxport.ops.linalg.lu import inverted, solved

# Terms of the exponential series that are enough in double precision for matrices of norm up to 1/2.
EXPONENTIAL_TERMS = 15
MAX_HALVINGS = 1024.0


@converter("aten::linalg_matrix_power", "aten::matrix_power")
def matrix_power(g: Builder, self: Value, n: int) -> Value:
    """aten::linalg_matrix_power(Tensor self, int n) -> Tensor"""
    if n == 0:
        return m.identity(g, m.height(self), m.width(self), self.dtype, m.dims(self)[:-2])
    result: Value | None = None
    square = self if n > 0 else inverted(g, self)[0]
    n = abs(n)
    while True:
        if n % 2:
            result = square if result is None else g.op("MatMul", result, square)
        n //= 2
        if not n:
            break
        square = g.op("MatMul", square, square)
    assert result is not None
    return result


@converter("aten::linalg_matrix_exp", "aten::matrix_exp")
def matrix_exp(g: Builder, self: Value) -> Value:
    """aten::linalg_matrix_exp(Tensor self) -> Tensor

    The series of a matrix that is halved until it is small; the result is squared as often. In double precision, as
    each squaring doubles the error.
    """
    if m.is_empty(m.dims(self)):
        return self
    a = g.cast(self, torch.float64)
    sums = emit.reduce(g, "ReduceL1", a, [a.rank - 2], keepdims=True)
    norm = emit.reduce(g, "ReduceMax", sums, [a.rank - 1], keepdims=True)
    doublings = g.op("Ceil", g.op("Div", g.op("Log", norm), math.log(2)))
    halvings = emit.clip(g, g.op("Add", doublings, 1), 0.0, MAX_HALVINGS)
    small = g.op("Mul", a, g.op("Pow", g.constant(2, a.dtype), g.op("Neg", halvings)))
    one = m.identity(g, m.height(a), m.width(a), a.dtype)
    result = g.op("Add", one, g.op("Div", small, EXPONENTIAL_TERMS))
    for term in range(EXPONENTIAL_TERMS - 1, 0, -1):
        result = g.op("Add", one, g.op("Div", g.op("MatMul", small, result), term))
    turns = g.cast(emit.reduce(g, "ReduceMax", halvings, None, keepdims=False), torch.int64)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        (x,) = states
        squares = g.op("Less", g.cast(iteration, x.dtype), halvings)
        return Step([g.op("Where", squares, g.op("MatMul", x, x), x)])

    ((squared,), _) = loop(g, turns, [result], step)
    return squared


@converter("aten::linalg_tensorinv")
def tensorinv(g: Builder, self: Value, ind: int = 2) -> Value:
    """aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor"""
    size = product(m.dims(self)[:ind])
    matrix = emit.reshape(g, self, (size, size))
    return emit.reshape(g, inverted(g, matrix)[0], g.outputs[0].shape)


@converter("aten::linalg_tensorsolve")
def tensorsolve(g: Builder, self: Value, other: Value, dims: Sequence[int] | None = None) -> Value:
    """aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor"""
    moved = [dim % self.rank for dim in dims or ()]
    a = emit.transpose(g, self, [axis for axis in range(self.rank) if axis not in moved] + moved)
    size = product(m.dims(other))
    b = emit.reshape(g, other, (size, 1))
    return emit.reshape(g, solved(g, emit.reshape(g, a, (size, size)), b)[0], g.outputs[0].shape)
