"""Helpers for linear algebra: rows, columns, diagonals and triangles of batches of matrices."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import Shape, Size, SizeExpr, smaller
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.inference.infer import broadcast
from onnxport.lower.value import Value


def dims(x: Value) -> Shape:
    assert x.shape is not None
    return x.shape


def height(a: Value) -> Size:
    return dims(a)[-2]


def width(a: Value) -> Size:
    return dims(a)[-1]


def depth(a: Value) -> Size:
    """The smaller of height and width."""
    return smaller(height(a), width(a))


def row_indices(g: Builder, a: Value) -> Value:
    """The index of each row, as a column."""
    return emit.unsqueeze(g, emit.counting(g, height(a)), [1])


def column_indices(g: Builder, a: Value) -> Value:
    return emit.counting(g, width(a))


def row(g: Builder, a: Value, index: Value) -> Value:
    """The row at an index, as a matrix with one row."""
    return g.op("Gather", a, emit.unsqueeze(g, index, [0]), axis=a.rank - 2)


def column(g: Builder, a: Value, index: Value) -> Value:
    return g.op("Gather", a, emit.unsqueeze(g, index, [0]), axis=a.rank - 1)


def turned(g: Builder, a: Value) -> Value:
    """The transposed matrix."""
    return emit.transpose(g, a, [*range(a.rank - 2), a.rank - 1, a.rank - 2])


def zero(g: Builder, like: Value) -> Value:
    return g.constant(0, like.dtype)


def chosen(g: Builder, condition: Value, a: Value) -> Value:
    """The elements where the condition holds, zero elsewhere."""
    return g.op("Where", condition, a, zero(g, a))


def on_diagonal(g: Builder, a: Value) -> Value:
    """Which elements are on the main diagonal."""
    rows, columns = dims(a)[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        return g.constant(torch.eye(rows, columns, dtype=torch.bool))
    return g.op("Equal", row_indices(g, a), column_indices(g, a))


def diagonal(g: Builder, a: Value) -> Value:
    """The main diagonal of a matrix with at least as many rows as columns."""
    return emit.reduce(g, "ReduceSum", chosen(g, on_diagonal(g, a), a), [a.rank - 2], keepdims=False)


def lower_triangle(g: Builder, a: Value, *, strict: bool = False) -> Value:
    below = g.op("Greater", row_indices(g, a), column_indices(g, a))
    return chosen(g, below if strict else g.op("Or", below, on_diagonal(g, a)), a)


def upper_triangle(g: Builder, a: Value) -> Value:
    return chosen(g, g.op("Not", g.op("Greater", row_indices(g, a), column_indices(g, a))), a)


def identity(g: Builder, rows: Size, columns: Size, dtype: torch.dtype, batch: Shape = ()) -> Value:
    """Ones on the diagonal."""
    if isinstance(rows, int) and isinstance(columns, int):
        one = g.constant(torch.eye(rows, columns), dtype)
    else:
        down = emit.unsqueeze(g, emit.counting(g, rows), [1])
        one = g.cast(g.op("Equal", down, emit.counting(g, columns)), dtype)
    return emit.expand(g, one, (*batch, rows, columns))


def common_batch(g: Builder, a: Value, b: Value) -> tuple[Value, Value]:
    """Both with their batch dimensions broadcast."""
    batch = broadcast([dims(a)[:-2], dims(b)[:-2]])
    assert batch is not None
    return emit.expand(g, a, (*batch, *dims(a)[-2:])), emit.expand(g, b, (*batch, *dims(b)[-2:]))


def columns_from(g: Builder, a: Value, start: Size, end: Size) -> Value:
    cut = emit.slice_(g, a, [start], [end], [a.rank - 1])
    return g.typed(cut, a.dtype, (*dims(a)[:-1], end - start))


def rows_until(g: Builder, a: Value, end: Size) -> Value:
    if height(a) == end:
        return a
    return g.typed(emit.slice_(g, a, [0], [end], [a.rank - 2]), a.dtype, (*dims(a)[:-2], end, width(a)))


def beside(g: Builder, a: Value, b: Value) -> Value:
    return g.op("Concat", a, b, axis=a.rank - 1)


def last(g: Builder, stacked: Value) -> Value:
    """The values that a loop stacked along the first dimension, along the last one."""
    return emit.transpose(g, stacked, [*range(1, stacked.rank), 0])


def first_failure(g: Builder, failed: Value) -> Value:
    """The index of the first true element, counted from 1; 0 if there is none."""
    axis = failed.rank - 1
    flags = g.cast(failed, torch.int32)
    if dims(failed)[-1] == 0:
        return emit.filled(g, dims(failed)[:-1], 0, torch.int32)
    number = g.op("Add", g.op("ArgMax", flags, axis=axis, keepdims=0), 1)
    return g.op("Mul", g.cast(number, torch.int32), emit.reduce(g, "ReduceMax", flags, [axis], keepdims=False))


def is_empty(shape: Shape) -> bool:
    return any(size == 0 for size in shape)


def counted_down(g: Builder, count: Size, iteration: Value) -> Value:
    """The index of an iteration counted from the last one."""
    top = g.constant(count - 1, torch.int64) if not isinstance(count, SizeExpr) else sizes.scalar(g, count - 1)
    return g.op("Sub", top, iteration)
