"""Segment reductions and grouped matrix products."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.reduction import nan_order

REDUCTIONS: dict[str, tuple[str, str, float]] = {
    "sum": ("ReduceSum", "Add", 0.0),
    "mean": ("ReduceSum", "Add", 0.0),
    "prod": ("ReduceProd", "Mul", 1.0),
    "max": ("ReduceMax", "Max", -math.inf),
    "min": ("ReduceMin", "Min", math.inf),
}


@converter("aten::segment_reduce")
def segment_reduce(
    g: Builder,
    data: Value,
    reduce: str,
    lengths: Value | None = None,
    indices: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Value:
    """aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor"""  # noqa: E501
    assert data.shape is not None
    partition = lengths if lengths is not None else offsets
    if partition is None:
        g.unsupported("segments given by indices, which torch does not compute either")
    starts, ends = _bounds(g, partition, is_lengths=lengths is not None)
    rows = data.shape[axis]
    flat = emit.reshape(g, data, [*data.shape[: axis + 1], product(data.shape[axis + 1 :])])
    position = emit.counting(g, rows)
    after = emit.greater_or_equal(g, position, emit.unsqueeze(g, starts, [axis + 1]))
    inside = g.op("And", after, g.op("Less", position, emit.unsqueeze(g, ends, [axis + 1])))
    op, join, neutral = REDUCTIONS[reduce]
    member = emit.unsqueeze(g, inside, [axis + 2])
    kept = emit.where(g, member, emit.unsqueeze(g, flat, [axis]), neutral, data.dtype)
    if reduce in ("max", "min"):
        result = nan_order.extreme(g, kept, [axis + 1], keepdims=False, largest=reduce == "max")
    else:
        result = emit.reduce(g, op, kept, [axis + 1], keepdims=False)
    if initial is not None and initial != neutral:
        result = g.op(join, result, float(initial))
    if reduce == "mean":
        result = _averaged(g, result, g.op("Sub", ends, starts), initial)
    return emit.reshape(g, result, g.outputs[0].shape)


def _bounds(g: Builder, partition: Value, *, is_lengths: bool) -> tuple[Value, Value]:
    last = partition.rank - 1
    numbers = g.cast(partition, torch.int64)
    if is_lengths:
        ends = emit.cumsum(g, numbers, last)
        return g.op("Sub", ends, numbers), ends
    return emit.slice_(g, numbers, [0], [-1], [last]), emit.slice_(g, numbers, [1], [emit.INT64_MAX], [last])


def _averaged(g: Builder, total: Value, count: Value, initial: float | None) -> Value:
    """The mean of an empty segment is NaN, unless there is an initial value."""
    lengths = emit.unsqueeze(g, g.cast(count, total.dtype), [count.rank])
    if initial is None:
        return g.op("Div", total, lengths)
    return g.op("Div", total, emit.clip(g, lengths, 1.0, None))


@converter("aten::_grouped_mm")
def grouped_mm(
    g: Builder,
    self: Value,
    mat2: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    out_dtype: Any = None,
) -> Value:
    """aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor

    One product for each group; ``offs`` are the ends of the groups along their common axis.
    """  # noqa: E501
    if offs is None:
        result = g.op("MatMul", self, mat2)
    elif self.rank == 2 and mat2.rank == 3:
        result = _joined_products(g, _parts(g, self, offs, 0), _matrices(g, mat2), axis=1)
    elif self.rank == 3:
        result = _joined_products(g, _matrices(g, self), _parts(g, mat2, offs, 1), axis=2)
    else:
        pairs = zip(_parts(g, self, offs, 1), _parts(g, mat2, offs, 0), strict=True)
        products = [emit.unsqueeze(g, g.op("MatMul", left, right), [0]) for left, right in pairs]
        result = g.op("Concat", *products, axis=0)
    return result if bias is None else g.op("Add", result, bias)


def _joined_products(g: Builder, left: list[Value], right: list[Value], axis: int) -> Value:
    products = [g.op("MatMul", a, b) for a, b in zip(left, right, strict=True)]
    return emit.squeeze(g, g.op("Concat", *products, axis=axis) if len(products) > 1 else products[0], [0])


def _matrices(g: Builder, x: Value) -> list[Value]:
    """The matrices along the first axis, which is kept."""
    count = (x.shape or ())[0]
    if not isinstance(count, int):
        g.unsupported("products of a dynamic number of groups")
    return list(emit.split(g, x, [1] * count, 0))


def _parts(g: Builder, x: Value, offs: Value, axis: int) -> list[Value]:
    """The groups along an axis. Elements after the last end belong to the last group."""
    count = (offs.shape or ())[0]
    if not isinstance(count, int):
        g.unsupported("products of a dynamic number of groups")
    assert x.shape is not None
    g.require(13, "products of groups with sizes that are only known at run time")
    total = sizes.vector(g, [x.shape[axis]])
    inner = emit.slice_(g, g.cast(offs, torch.int64), [0], [count - 1], [0])
    ends = g.op("Concat", inner, total, axis=0)
    starts = g.op("Concat", g.constant([0], torch.int64), inner, axis=0)
    return list(g.op("Split", x, g.op("Sub", ends, starts), outputs=count, axis=axis))
