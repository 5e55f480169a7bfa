"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from onnxport.graph.sizes import Size, SizeExpr
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value


@converter("aten::matmul", "aten::linalg_matmul", "aten::vdot")
def matmul(g: Builder, self: Value, other: Value) -> Value:
    """aten::matmul(Tensor self, Tensor other) -> Tensor"""
    return g.op("MatMul", self, other)


@converter("aten::mm", "aten::bmm")
def mm(g: Builder, self: Value, mat2: Value, out_dtype: torch.dtype | None = None) -> Value:
    """aten::mm(Tensor self, Tensor mat2) -> Tensor"""
    dtype = out_dtype or self.dtype
    return g.op("MatMul", g.cast(self, dtype), g.cast(mat2, dtype))


@converter("aten::mv")
def mv(g: Builder, self: Value, vec: Value) -> Value:
    """aten::mv(Tensor self, Tensor vec) -> Tensor"""
    return g.op("MatMul", self, vec)


@converter("aten::dot")
def dot(g: Builder, self: Value, tensor: Value) -> Value:
    """aten::dot(Tensor self, Tensor tensor) -> Tensor"""
    return g.op("MatMul", self, tensor)


@converter("aten::linalg_vecdot")
def vecdot(g: Builder, x: Value, y: Value, dim: int = -1) -> Value:
    """aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor"""
    product = g.op("Mul", x, y)
    return emit.reduce(g, "ReduceSum", product, [dim % product.rank], False)


@converter("aten::outer", "aten::ger")
def outer(g: Builder, self: Value, vec2: Value) -> Value:
    """aten::outer(Tensor self, Tensor vec2) -> Tensor"""
    left, right = g.promoted(self, vec2)
    return times(g, emit.unsqueeze(g, left, [1]), right)


@converter("aten::addmm")
def addmm(
    g: Builder,
    self: Value,
    mat1: Value,
    mat2: Value,
    beta: Operand = 1,
    alpha: Operand = 1,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    dtype = out_dtype or mat1.dtype
    bias, left, right = (g.cast(operand, dtype) for operand in (self, mat1, mat2))
    # The runtime's Gemm ignores beta if the inner size is 0.
    empty = left.shape is not None and left.shape[1] == 0
    if beta == 0 or empty or not left.is_float or not all(_is_attribute(factor, dtype) for factor in (alpha, beta)):
        return _sum(g, bias, beta, g.op("MatMul", left, right), alpha)
    assert not isinstance(alpha, Value) and not isinstance(beta, Value)
    return g.op(
        "Gemm", left, right, bias, alpha=None if alpha == 1 else float(alpha), beta=None if beta == 1 else float(beta)
    )


def _is_attribute(factor: Operand, dtype: torch.dtype) -> bool:
    """Whether a factor can be an attribute, which has single precision."""
    if isinstance(factor, Value):
        return False
    return dtype != torch.float64 or torch.tensor(float(factor), dtype=torch.float32).item() == factor


@converter("aten::addmv")
def addmv(g: Builder, self: Value, mat: Value, vec: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    """aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _sum(g, self, beta, g.op("MatMul", mat, vec), alpha)


@converter("aten::baddbmm")
def baddbmm(
    g: Builder,
    self: Value,
    batch1: Value,
    batch2: Value,
    beta: Operand = 1,
    alpha: Operand = 1,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    dtype = out_dtype or batch1.dtype
    return _sum(g, g.cast(self, dtype), beta, mm(g, batch1, batch2, dtype), alpha)


@converter("aten::addbmm")
def addbmm(g: Builder, self: Value, batch1: Value, batch2: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    """aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    product = emit.reduce(g, "ReduceSum", g.op("MatMul", batch1, batch2), [0], False)
    return _sum(g, self, beta, product, alpha)


@converter("aten::addr")
def addr(g: Builder, self: Value, vec1: Value, vec2: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    """aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    dtype = g.outputs[0].dtype
    base, left, right = (g.cast(operand, dtype) for operand in (self, vec1, vec2))
    product = times(g, emit.unsqueeze(g, left, [1]), right)
    if dtype != torch.bool:
        return _sum(g, base, beta, product, alpha)
    if not alpha:
        return g.op("And", product, False)
    return product if not beta else g.op("Or", base, product)


def _sum(g: Builder, base: Value, beta: Operand, product: Value, alpha: Operand) -> Value:
    """beta * base + alpha * product; with beta 0 the base is ignored, also if it is NaN."""
    scaled = _scaled(g, product, alpha)
    return scaled if beta == 0 else g.op("Add", _scaled(g, base, beta), scaled)


def _scaled(g: Builder, x: Value, factor: Operand) -> Value:
    return x if factor == 1 else g.op("Mul", x, g.cast(factor, x.dtype))


def times(g: Builder, left: Value, right: Value) -> Value:
    """The product of numbers; And for bools."""
    return g.op("And" if left.dtype == torch.bool else "Mul", left, right)


@converter("aten::chain_matmul")
def chain_matmul(g: Builder, matrices: list[Value]) -> Value:
    """aten::chain_matmul(Tensor[] matrices) -> Tensor"""
    return multi_dot(g, matrices)


@converter("aten::linalg_multi_dot")
def multi_dot(g: Builder, tensors: list[Value]) -> Value:
    """aten::linalg_multi_dot(Tensor[] tensors) -> Tensor

    In the order of the fewest multiplications.
    """
    first, last = tensors[0], tensors[-1]
    assert first.shape is not None
    edges = [_example(size) for size in ((1, first.shape[0]) if first.rank == 1 else first.shape)]
    for tensor in tensors[1:]:
        assert tensor.shape is not None
        edges.append(1 if tensor is last and tensor.rank == 1 else _example(tensor.shape[-1]))

    @functools.cache
    def cost(start: int, end: int) -> tuple[int, int]:
        """The number of multiplications for a part of the chain, and where to split it."""
        if end - start == 1:
            return 0, start
        return min(
            (cost(start, cut)[0] + cost(cut, end)[0] + edges[start] * edges[cut] * edges[end], cut)
            for cut in range(start + 1, end)
        )

    def product(start: int, end: int) -> Value:
        if end - start == 1:
            return tensors[start]
        cut = cost(start, end)[1]
        return g.op("MatMul", product(start, cut), product(cut, end))

    return product(0, len(tensors))


def _example(size: Size) -> int:
    return size.at[0] if isinstance(size, SizeExpr) else size


@converter("aten::kron")
def kron(g: Builder, self: Value, other: Value) -> Value:
    """aten::kron(Tensor self, Tensor other) -> Tensor"""
    left, right = g.promoted(self, other)
    rank = max(left.rank, right.rank)
    left = emit.unsqueeze(g, left, range(rank - left.rank))
    right = emit.unsqueeze(g, right, range(rank - right.rank))
    outer = emit.unsqueeze(g, left, range(1, 2 * rank, 2))
    inner = emit.unsqueeze(g, right, range(0, 2 * rank, 2))
    return emit.reshape(g, times(g, outer, inner), g.outputs[0].shape)


@converter("aten::cross", "aten::linalg_cross")
def cross(g: Builder, self: Value, other: Value, dim: int | None = None) -> Value:
    """aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    left, right = g.promoted(self, other)
    assert left.shape is not None
    axis = left.shape.index(3) if dim is None else dim % left.rank

    def turned(x: Value, order: Sequence[int]) -> Value:
        return g.op("Gather", x, list(order), axis=axis)

    ahead = g.op("Mul", turned(left, (1, 2, 0)), turned(right, (2, 0, 1)))
    behind = g.op("Mul", turned(left, (2, 0, 1)), turned(right, (1, 2, 0)))
    return g.op("Sub", ahead, behind)
