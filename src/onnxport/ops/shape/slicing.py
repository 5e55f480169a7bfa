"""Slices, selections of one index, and their scatter operators."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value

END = emit.INT64_MAX
# Above this many rows their indices are not stored in the file: the rows around them are concatenated instead.
MAX_ROWS = 1024


@converter("aten::slice.Tensor")
def slice_(
    g: Builder, self: Value, dim: int = 0, start: AnySize | None = None, end: AnySize | None = None, step: AnySize = 1
) -> Value:
    """aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""  # noqa: E501
    return _slice(g, self, dim % self.rank, _bound(start, 0), _bound(end, END), _bound(step, 1))


def _bound(bound: AnySize | None, default: int) -> AnySize:
    known = None if bound is None else sizes.known(bound)
    return default if bound is None else known if isinstance(known, int) else bound


def _positions(size: AnySize, start: AnySize, end: AnySize, step: AnySize) -> range | None:
    """The indices of a slice, if they are known."""
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return range(size)[start:end:step]
    return None


def _slice(g: Builder, x: Value, axis: int, start: AnySize, end: AnySize, step: AnySize = 1) -> Value:
    assert x.shape is not None
    size = x.shape[axis]
    taken = _positions(size, start, end, step)
    if (start == 0 and end == END and step == 1) or (taken is not None and len(taken) == size):
        return x
    if taken is not None and step != 1 and g.opset < 10:
        return g.op("Gather", x, g.constant(torch.tensor(taken)), axis=axis)
    shape = None if taken is None else (*x.shape[:axis], len(taken), *x.shape[axis + 1 :])
    source, (starts, ends, axes, steps) = _before(g, x, axis)
    result = emit.slice_(g, source, [*starts, start], [*ends, end], [*axes, axis], [*steps, step])
    return g.typed(result, x.dtype, shape)


def _before(g: Builder, x: Value, axis: int) -> tuple[Value, list[list[int]]]:
    """The input of a slice, and its constant bounds on other axes, so that slices of several axes become one node."""
    node = None if x.ir is None else x.ir.producer()
    if node is None or node.op_type != "Slice" or g.opset < 10:
        return x, [[], [], [], []]
    contents = [None if value is None else value.const_value for value in node.inputs[1:]]
    source = node.inputs[0]
    if any(content is None for content in contents) or source is None:
        return x, [[], [], [], []]
    bounds = [content.numpy().tolist() for content in contents if content is not None]
    if len(bounds) == 3:
        bounds.append([1] * len(bounds[0]))
    if axis in bounds[2]:
        return x, [[], [], [], []]
    return Value(source, x.dtype, None), bounds


@converter("aten::narrow")
def narrow(g: Builder, self: Value, dim: int, start: AnySize, length: AnySize) -> Value:
    """aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    axis = dim % self.rank
    start, length = _bound(start, 0), _bound(length, END)
    if isinstance(start, int) and isinstance(length, int):
        end = start + length
        return _slice(g, self, axis, start, END if start < 0 <= end else end)
    # A computed start may be negative, so start + length may be 0.
    return emit.slice_(g, _slice(g, self, axis, start, END), [0], [length], [axis])


@converter("aten::select.int")
def select(g: Builder, self: Value, dim: int, index: AnySize) -> Value:
    """aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    assert self.shape is not None
    axis = dim % self.rank
    index, size = _bound(index, 0), self.shape[axis]
    if isinstance(index, int) and index < 0:
        if isinstance(size, int):
            index += size
        elif g.opset < 11:
            return emit.squeeze(g, _slice(g, self, axis, index, END if index == -1 else index + 1), [axis])
    return g.op("Gather", self, sizes.scalar(g, index), axis=axis)


@converter("aten::slice_scatter")
def slice_scatter(
    g: Builder,
    self: Value,
    src: Value,
    dim: int = 0,
    start: AnySize | None = None,
    end: AnySize | None = None,
    step: int = 1,
) -> Value:
    """aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""  # noqa: E501
    assert self.shape is not None and src.shape is not None
    axis = dim % self.rank
    source = g.cast(src, self.dtype)
    start, end = _bound(start, 0), _bound(end, END)
    taken = _positions(self.shape[axis], start, end, step)
    if src.shape[axis] == 0:
        return self
    if taken is not None:
        start, end = taken.start, taken.stop
    if (taken is not None and len(taken) == self.shape[axis]) or (start == 0 and end == END and step == 1):
        return source
    if taken is not None and axis == 0 and len(taken) <= MAX_ROWS and g.opset >= 11:
        return emit.scatter_nd(g, self, g.constant(torch.tensor(taken).unsqueeze(1)), source)
    if step == 1:
        return _joined(g, self, source, axis, start, end)
    if taken is not None:
        index = g.constant(torch.tensor(taken))
    else:
        index = _slice(g, emit.counting(g, self.shape[axis]), 0, start, end, step)
        g.typed(index, torch.int64, (src.shape[axis],))
    index = emit.unsqueeze(g, index, [i for i in range(self.rank) if i != axis])
    return emit.scatter_elements(g, self, emit.expand(g, index, src.shape), source, axis)


def _joined(g: Builder, x: Value, source: Value, axis: int, start: AnySize, end: AnySize) -> Value:
    """The part before the slice, the new content, and the part after it."""
    before = [] if start == 0 else [_slice(g, x, axis, 0, start)]
    if end == END or end == (x.shape or ())[axis]:
        behind = []
    else:
        behind = [_behind(g, x, axis, start, end, (source.shape or ())[axis])]
    return g.op("Concat", *before, source, *behind, axis=axis)


def _behind(g: Builder, x: Value, axis: int, start: AnySize, end: AnySize, length: Size) -> Value:
    """The part after a slice, also if the slice ends before its start and is empty.

    Data-dependent bounds are assumed to be in order.
    """
    if isinstance(start, int) and isinstance(end, int):
        if start == 0 or (start < 0) == (end < 0):
            return _slice(g, x, axis, end, END)
        # One bound counts from the end: which one is larger depends on the size.
        return emit.slice_(g, _slice(g, x, axis, max(start, end), END), [min(start, end)], [END], [axis])
    first, last = sizes.known(start), sizes.known(end)
    if first is None or last is None or first + length == last:
        return _slice(g, x, axis, end, END)
    return emit.slice_(g, _slice(g, x, axis, start, END), [length], [END], [axis])


@converter("aten::select_scatter")
def select_scatter(g: Builder, self: Value, src: Value, dim: int, index: AnySize) -> Value:
    """aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    assert self.shape is not None
    axis = dim % self.rank
    index, size = _bound(index, 0), self.shape[axis]
    source = g.cast(src, self.dtype)
    if axis == 0 and g.opset >= 11:
        return emit.scatter_nd(g, self, sizes.vector(g, [index]), source)
    source = emit.unsqueeze(g, source, [axis])
    if not isinstance(index, int):
        indices = emit.reshape(g, sizes.scalar(g, index), [1] * self.rank)
        return emit.scatter_elements(g, self, emit.expand(g, indices, source.shape or ()), source, axis)
    if isinstance(size, int) and g.opset >= 9:
        mask = (torch.arange(size) == index % size).reshape([-1] + [1] * (self.rank - axis - 1))
        return emit.where(g, g.constant(mask), source, self)
    return _joined(g, self, source, axis, index, END if index == -1 else index + 1)
