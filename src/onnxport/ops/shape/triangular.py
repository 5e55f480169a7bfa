"""Triangles and diagonals of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Entry, converter, entries
from onnxport.lower.value import AnySize, Value


def _triangle(upper: bool) -> object:
    def convert(g: Builder, self: Value, diagonal: AnySize = 0) -> Value:
        """aten::tril(Tensor self, SymInt diagonal=0) -> Tensor"""
        assert self.shape is not None
        if g.opset >= 14:
            k = None if diagonal == 0 else sizes.scalar(g, diagonal)
            return g.op("Trilu", self, k, upper=int(upper))
        mask = _band(g, self.shape[-2], self.shape[-1], diagonal, "GreaterOrEqual" if upper else "LessOrEqual")
        return g.op("And", self, mask) if self.dtype == torch.bool else emit.where(g, mask, self, 0, self.dtype)

    return convert


TRIANGLES: list[Entry] = entries(_triangle, {"aten::tril": False, "aten::triu": True})  # type: ignore[arg-type]

COMPARISONS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[Builder, Value, Value], Value]]] = {
    "Equal": (torch.eq, lambda g, x, y: g.op("Equal", x, y)),
    "LessOrEqual": (torch.le, emit.less_or_equal),
    "GreaterOrEqual": (torch.ge, emit.greater_or_equal),
}


def _band(g: Builder, rows: AnySize, columns: AnySize, offset: AnySize, comparison: str) -> Value:
    """A mask of the elements with this comparison between their column and their row + offset."""
    now, at_run_time = COMPARISONS[comparison]
    known = [sizes.known(size) for size in (rows, columns, offset)]
    if all(isinstance(size, int) for size in known):
        height, width, shift = known
        return g.constant(now(torch.arange(width), torch.arange(height).unsqueeze(1) + shift))  # type: ignore[arg-type,operator]
    row = emit.unsqueeze(g, emit.counting(g, rows), [1])
    if known[2] != 0:
        row = g.op("Add", row, sizes.scalar(g, offset))
    return at_run_time(g, emit.counting(g, columns), row)


@converter("aten::tril_indices", "aten::triu_indices")
def triangle_indices(
    g: Builder,
    row: AnySize,
    col: AnySize,
    offset: AnySize = 0,
    dtype: object = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Value:
    """aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    assert g.origin is not None
    comparison = "LessOrEqual" if g.origin.op == "aten::tril_indices" else "GreaterOrEqual"
    mask = _band(g, row, col, offset, comparison)
    indices = g.op("NonZero", mask) if mask.data is None else g.constant(mask.data.nonzero().T)
    return g.cast(indices, g.outputs[0].dtype)


@converter("aten::diagonal", "aten::linalg_diagonal")
def diagonal(
    g: Builder, self: Value | None = None, offset: int = 0, dim1: int = 0, dim2: int = 1, A: Value | None = None
) -> Value:
    """aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    x = self if self is not None else A
    assert x is not None
    return _diagonal(g, x, offset, dim1, dim2)


def _diagonal(g: Builder, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    """Every (columns + 1)-th element of the flattened matrices."""
    matrix = _moved(g, x, dim1, dim2)
    assert matrix.shape is not None
    *batch, rows, columns = matrix.shape
    first_row, first_column = max(-offset, 0), max(offset, 0)
    flat = emit.reshape(g, matrix, [*batch, rows * columns])
    axis = len(batch)
    if isinstance(rows, int) and isinstance(columns, int):
        length = max(min(rows - first_row, columns - first_column), 0)
        start = first_row * columns + first_column
        taken = torch.arange(length) * (columns + 1) + start
        if g.opset < 10 or length == 0:
            return g.op("Gather", flat, g.constant(taken), axis=axis)
        return emit.slice_(g, flat, [start], [int(taken[-1]) + 1], [axis], [columns + 1])
    indices = _diagonal_indices(g, rows, columns, first_row, first_column)
    return g.op("Gather", flat, indices, axis=axis)


def _diagonal_indices(g: Builder, rows: AnySize, columns: AnySize, first_row: int, first_column: int) -> Value:
    """The flat indices of the diagonal's elements, for sizes that are only known at run time."""
    height, width = (sizes.scalar(g, size) for size in (rows, columns))
    length = height if first_row == 0 else g.op("Sub", height, first_row)
    if rows != columns or first_row != first_column:
        length = g.op("Min", length, width if first_column == 0 else g.op("Sub", width, first_column))
    start = g.op("Mul", width, first_row) if first_row else g.constant(first_column, torch.int64)
    step = g.op("Add", width, 1)
    # The last index is start + (length - 1) * step; there is none for a length below 0.
    end = g.op("Add", start, g.op("Mul", length, step))
    return emit.range_(g, start, end, step, torch.int64)


def _moved(g: Builder, x: Value, dim1: int, dim2: int) -> Value:
    """The matrix axes moved to the end."""
    first, second = dim1 % x.rank, dim2 % x.rank
    return emit.transpose(g, x, [*(axis for axis in range(x.rank) if axis not in (first, second)), first, second])


@converter("aten::diag")
def diag(g: Builder, self: Value, diagonal: int = 0) -> Value:
    """aten::diag(Tensor self, int diagonal=0) -> Tensor"""
    return _diagonal(g, self, diagonal, 0, 1) if self.rank == 2 else _embedded(g, self, diagonal)


@converter("aten::diagflat")
def diagflat(g: Builder, self: Value, offset: int = 0) -> Value:
    """aten::diagflat(Tensor self, int offset=0) -> Tensor"""
    return _embedded(g, emit.reshape(g, self, [math.prod(self.shape or ())]), offset)


@converter("aten::diag_embed")
def diag_embed(g: Builder, self: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    rank = self.rank + 1
    order = [axis for axis in range(rank) if axis not in (dim1 % rank, dim2 % rank)] + [dim1 % rank, dim2 % rank]
    return emit.transpose(g, _embedded(g, self, offset), [order.index(axis) for axis in range(rank)])


def _embedded(g: Builder, x: Value, offset: int) -> Value:
    """The last axis as a diagonal of matrices of zeros."""
    assert x.shape is not None
    size = x.shape[-1] + abs(offset)
    spread = _spread(g, x, offset, abs(offset))
    return emit.where(g, _band(g, size, size, offset, "Equal"), spread, 0, x.dtype)


def _spread(g: Builder, x: Value, offset: int, missing: AnySize) -> Value:
    """A diagonal broadcast along its rows (along its columns if it is below the main one)."""
    padded = emit.pad(g, x, [0] * (2 * x.rank - 1) + [missing]) if missing != 0 else x
    return emit.unsqueeze(g, padded, [x.rank if offset >= 0 else x.rank - 1])


@converter("aten::diagonal_scatter")
def diagonal_scatter(g: Builder, self: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    matrix, source = _moved(g, self, dim1, dim2), g.cast(src, self.dtype)
    assert matrix.shape is not None and source.shape is not None
    rows, columns = matrix.shape[-2:]
    missing = (rows if offset >= 0 else columns) - source.shape[-1]
    put = emit.where(g, _band(g, rows, columns, offset, "Equal"), _spread(g, source, offset, missing), matrix)
    rank = self.rank
    order = [axis for axis in range(rank) if axis not in (dim1 % rank, dim2 % rank)] + [dim1 % rank, dim2 % rank]
    return emit.transpose(g, put, [order.index(axis) for axis in range(rank)])


@converter("aten::trace")
def trace(g: Builder, self: Value) -> Value:
    """aten::trace(Tensor self) -> Tensor"""
    elements = g.cast(_diagonal(g, self, 0, 0, 1), g.outputs[0].dtype)
    return emit.reduce(g, "ReduceSum", elements, [0], keepdims=False)
