"""Indexing with integer tensors and masks, with slices between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Size, SizeExpr
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Operand, Value

MASKS = (torch.bool, torch.uint8)
FIRST_GATHER_ND = 11


@converter("aten::index.Tensor", "aten::index.Tensor_hacked_twin")
def index(g: Builder, self: Value, indices: list[Value | None]) -> Value:
    """aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    indexed = [position for position, value in enumerate(indices) if value is not None]
    first = indices[indexed[0]] if indexed else None
    if first is None:
        return self
    if len(indexed) == 1 and first.dtype in MASKS and first.data is None:
        return _masked(g, self, first, indexed[0])
    where = _where(g, self, indices)
    if len(where.axes) == 1:
        return g.op("Gather", self, where.indices[0], axis=where.axes[0])
    if g.opset < FIRST_GATHER_ND or (where.adjacent and where.axes[0] > 0 and _is_flattened(self, where)):
        return _gather_flat(g, self, where)
    gathered = g.op("GatherND", emit.transpose(g, self, where.to_front), where.stacked(g))
    if not where.adjacent or where.axes[0] == 0:
        return gathered
    lead, rank = where.axes[0], self.rank - len(where.axes) + where.rank
    moved = [*range(where.rank, where.rank + lead), *range(where.rank), *range(where.rank + lead, rank)]
    return emit.transpose(g, gathered, moved)


def _masked(g: Builder, x: Value, mask: Value, position: int) -> Value:
    """A single mask: Compress, or NonZero where it covers some of several axes."""
    assert x.shape is not None
    condition = g.cast(mask, torch.bool)
    if mask.rank == 1:
        return g.op("Compress", x, condition, axis=position)
    if mask.rank == x.rank:
        return g.op("Compress", x, g.op("Reshape", condition, [-1]))
    if position == 0 and g.opset >= 11:
        return g.op("GatherND", x, g.op("Transpose", nonzero(g, condition), perm=[1, 0]))
    after = x.shape[position + mask.rank :]
    flat = emit.reshape(g, x, [*x.shape[:position], math.prod(x.shape[position : position + mask.rank]), *after])
    return g.op("Compress", flat, g.op("Reshape", condition, [-1]), axis=position)


def nonzero(g: Builder, mask: Value) -> Value:
    """The indices of non-zero elements, one row per axis; their number is only known at run time."""
    source = mask if g.runs("NonZero", mask.dtype) else g.cast(mask, torch.bool)
    return g.op("NonZero", source)


def _is_flattened(x: Value, where: Where) -> bool:
    """Whether constants index axes of static sizes, so that the flat index of each element is known."""
    constant = all(value.data is not None for value in where.indices)
    return constant and all(isinstance((x.shape or ())[axis], int) for axis in where.axes)


def _gather_flat(g: Builder, x: Value, where: Where) -> Value:
    """Replace indices by one flat index into their axes, which are adjacent or at the front."""
    assert x.shape is not None
    lead, count = (where.axes[0] if where.adjacent else 0), len(where.axes)
    order = list(range(x.rank)) if where.adjacent else where.to_front
    shape = [x.shape[axis] for axis in order]
    lengths = shape[lead : lead + count]
    flat_index = _flat_index(where, lengths) if _is_flattened(x, where) else None
    flat = emit.reshape(g, emit.transpose(g, x, order), [*shape[:lead], math.prod(lengths), *shape[lead + count :]])
    index = g.constant(flat_index) if flat_index is not None else _flat_index_at_run_time(g, where, lengths)
    return g.op("Gather", flat, index, axis=lead)


def _flat_index(where: Where, lengths: Sequence[Size]) -> torch.Tensor:
    flat_index = torch.zeros([], dtype=torch.int64)
    for value, length in zip(where.indices, lengths, strict=True):
        assert value.data is not None and isinstance(length, int)
        flat_index = flat_index * length + value.data % length
    return flat_index


def _flat_index_at_run_time(g: Builder, where: Where, lengths: Sequence[Size]) -> Value:
    flat_index: Value | None = None
    for value, length in zip(where.indices, lengths, strict=True):
        size = sizes.scalar(g, length)
        index = value
        if value.data is None or bool((value.data < 0).any()):
            from_end = g.cast(g.op("Less", value, 0), torch.int64)
            index = g.op("Add", value, g.op("Mul", from_end, size))
        flat_index = index if flat_index is None else g.op("Add", g.op("Mul", flat_index, size), index)
    assert flat_index is not None
    return flat_index


@dataclass(frozen=True)
class Where:
    """Integer indices, the axes that they index, and the rank of the indexed tensor.

    ``masks`` of them were masks: these are vectors with a length that is only known at run time.
    """

    indices: list[Value]
    axes: list[int]
    total: int
    masks: int

    @property
    def rank(self) -> int:
        """The rank of the broadcast indices."""
        return max(1 if value.shape is None else value.rank for value in self.indices)

    @property
    def counted(self) -> bool:
        return self.masks > 0

    @property
    def adjacent(self) -> bool:
        return self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))

    @property
    def rest(self) -> list[int]:
        return [axis for axis in range(self.total) if axis not in self.axes]

    @property
    def to_front(self) -> list[int]:
        """The permutation that moves the indexed axes to the front."""
        return [*self.axes, *self.rest]

    def stacked(self, g: Builder) -> Value:
        """The broadcast indices, stacked along a new last axis."""
        if len(self.indices) == 1:
            return emit.unsqueeze(g, self.indices[0], [self.rank])
        if all(value.data is not None for value in self.indices):
            together = torch.broadcast_tensors(  # type: ignore[no-untyped-call]
                *(value.data for value in self.indices if value.data is not None)
            )
            return g.constant(torch.stack(together, -1))
        expanded = self._expanded(g)
        return g.op("Concat", *(emit.unsqueeze(g, value, [self.rank]) for value in expanded), axis=-1)

    def _expanded(self, g: Builder) -> list[Value]:
        if len({value.shape for value in self.indices}) == 1 and self.masks < 2:
            return self.indices
        if self.counted:
            target = self._shape_at_run_time(g)
            return [g.op("Expand", value, target) for value in self.indices]
        return [emit.expand(g, value, self.shape) for value in self.indices]

    @property
    def shape(self) -> list[AnySize]:
        """The shape of the broadcast indices."""
        result: list[AnySize] = [1] * self.rank
        for value in self.indices:
            for axis, size in enumerate(value.shape or (), start=self.rank - value.rank):
                result[axis] = size if result[axis] == 1 else result[axis]
        return result

    def _shape_at_run_time(self, g: Builder) -> Value:
        """The shape of the broadcast indices at run time, as the shape of their sum."""
        total = self.indices[0]
        for value in self.indices[1:]:
            total = g.op("Add", total, value)
        return g.op("Shape", total)

    def result_shape(self, g: Builder, x: Value) -> Value:
        """The shape of the selected elements: that of the indices, then the axes without an index."""
        assert x.shape is not None
        rest = [x.shape[axis] for axis in self.rest]
        if not self.counted:
            return sizes.vector(g, [*self.shape, *rest])
        own = g.op("Shape", self.indices[0]) if len(self.indices) == 1 else self._shape_at_run_time(g)
        return g.op("Concat", own, sizes.vector(g, rest), axis=0) if rest else own


def _where(g: Builder, x: Value, indices: Sequence[Value | None]) -> Where:
    """Masks as indices of their true elements, integers as int64, each with its axis."""
    found: list[Value] = []
    axes: list[int] = []
    axis = 0
    masks = 0
    for value in indices:
        if value is None:
            axis += 1
            continue
        parts = _positions(g, value) if value.dtype in MASKS else [g.cast(value, torch.int64)]
        masks += value.dtype in MASKS and value.data is None
        found += parts
        axes += range(axis, axis + len(parts))
        axis += len(parts)
    assert x.shape is not None
    if g.opset < 11:
        found = [_not_negative(g, value, x.shape[at]) for value, at in zip(found, axes, strict=True)]
    return Where(found, axes, x.rank, masks)


def _not_negative(g: Builder, index: Value, size: AnySize) -> Value:
    """Constant indices made non-negative: ONNX counts from the end only from opset 11 on."""
    if index.data is None or not isinstance(size, int) or bool((index.data >= 0).all()):
        return index
    return g.constant(index.data % size)


def _positions(g: Builder, mask: Value) -> list[Value]:
    """A mask as one index per axis."""
    if mask.data is not None:
        return [g.constant(row) for row in mask.data.nonzero(as_tuple=True)]
    rows = nonzero(g, g.cast(mask, torch.bool))
    if mask.rank == 1:
        return [emit.squeeze(g, rows, [0])]
    return [g.op("Gather", rows, g.constant(row, torch.int64), axis=0) for row in range(mask.rank)]


@converter("aten::index_put", "aten::_index_put_impl")
def index_put(
    g: Builder,
    self: Value,
    indices: list[Value | None],
    values: Operand,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Value:
    """aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    source = g.cast(values, self.dtype)
    indexed = [position for position, value in enumerate(indices) if value is not None]
    first = indices[indexed[0]] if indexed else None
    if first is None:
        return g.op("Add", self, source) if accumulate else emit.expand(g, source, self.shape or ())
    if len(indexed) == 1 and first.dtype in MASKS:
        after = self.rank - indexed[0] - first.rank
        one = source.shape == () or (source.data is not None and source.data.numel() == 1)
        if one or source.rank <= after:
            return _put_masked(g, self, first, source, after, accumulate)
    where = _where(g, self, indices)
    reduction = "add" if accumulate else "none"
    if len(where.axes) == 1 and where.rank == 1 and not where.counted and (where.axes[0] > 0 or g.opset < 11):
        axis, shape = where.axes[0], self.shape or ()
        source = emit.expand(g, source, [*shape[:axis], *where.shape, *shape[axis + 1 :]])
        return _scatter_along(g, self, axis, where.indices[0], source, reduction)
    updates = _updates(g, self, where, source)
    data = emit.transpose(g, self, where.to_front)
    put = emit.scatter_nd(g, data, where.stacked(g), updates, reduction)
    return emit.transpose(g, put, [where.to_front.index(axis) for axis in range(self.rank)])


def _put_masked(g: Builder, x: Value, mask: Value, source: Value, after: int, accumulate: bool) -> Value:
    """A Where on the mask, for values that are the same for every selected element."""
    condition = emit.unsqueeze(g, g.cast(mask, torch.bool), [mask.rank + i for i in range(after)])
    if source.data is not None and source.data.numel() == 1:
        source = g.constant(source.data.reshape([]))
    return emit.where(g, condition, g.op("Add", x, source) if accumulate else source, x)


def _updates(g: Builder, x: Value, where: Where, source: Value) -> Value:
    """The new values with the axes of the indices first, as ScatterND needs them."""
    assert x.shape is not None and source.shape is not None
    rest = [x.shape[axis] for axis in where.rest]
    lead = where.axes[0] if where.adjacent else 0
    if source.rank > len(rest) - lead and lead > 0:
        full = where.rank + len(rest)
        source = emit.unsqueeze(g, source, range(full - source.rank))
        moved = [*range(lead, lead + where.rank), *range(lead), *range(lead + where.rank, full)]
        source = emit.transpose(g, source, moved)
    if not where.counted:
        return emit.expand(g, source, [*where.shape, *rest])
    if source.rank == where.rank + len(rest) and _is_full(g, source, where.rank, rest):
        return source
    return g.op("Expand", source, where.result_shape(g, x))


def _is_full(g: Builder, source: Value, rank: int, rest: Sequence[AnySize]) -> bool:
    """Whether values for a mask have one entry per selected element; a dynamic axis may be 1, and is broadcast then."""
    assert source.shape is not None
    count = source.shape[0]
    is_counted = count in g.context.counted if isinstance(count, SizeExpr) else count != 1
    return rank == 1 and is_counted and list(source.shape[1:]) == list(rest)


def _scatter_along(g: Builder, x: Value, axis: int, index: Value, source: Value, reduction: str = "none") -> Value:
    """Write slices of the source along one axis, at a 1-D index."""
    index = g.cast(index, torch.int64)
    if axis == 0 and g.opset >= 11:
        return emit.scatter_nd(g, x, emit.unsqueeze(g, index, [1]), source, reduction)
    assert x.shape is not None and source.shape is not None
    if g.opset < 11:
        index = _not_negative(g, index, x.shape[axis])
    column = emit.unsqueeze(g, index, [i for i in range(x.rank) if i != axis])
    return emit.scatter_elements(g, x, emit.expand(g, column, source.shape), source, axis, reduction)


def _as_vectors(g: Builder, x: Value, *others: Value) -> list[Value]:
    """0-dim tensors as vectors of one element."""
    return [emit.reshape(g, value, [1]) if value.shape == () else value for value in (x, *others)]


@converter("aten::index_select")
def index_select(g: Builder, self: Value, dim: int, index: Value) -> Value:
    """aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    x, index_vector = _as_vectors(g, self, index)
    picked = g.op("Gather", x, index_vector, axis=dim % x.rank)
    return emit.reshape(g, picked, []) if self.rank == 0 else picked


@converter("aten::index_copy")
def index_copy(g: Builder, self: Value, dim: int, index: Value, source: Value) -> Value:
    """aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    x, index_vector, values = _as_vectors(g, self, index, source)
    return emit.reshape(g, _scatter_along(g, x, dim % x.rank, index_vector, values), self.shape or ())


@converter("aten::index_add")
def index_add(g: Builder, self: Value, dim: int, index: Value, source: Value, alpha: Operand = 1) -> Value:
    """aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    x, index_vector, values = _as_vectors(g, self, index, source)
    values = values if not isinstance(alpha, Value) and alpha == 1 else g.op("Mul", values, g.cast(alpha, values.dtype))
    return emit.reshape(g, _scatter_along(g, x, dim % x.rank, index_vector, values, "add"), self.shape or ())


@converter("aten::index_fill")
def index_fill(g: Builder, self: Value, dim: int, index: Value, value: Operand) -> Value:
    """aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    x, index_vector = _as_vectors(g, self, index)
    assert x.shape is not None and index_vector.shape is not None
    axis, fill = dim % x.rank, g.cast(value, x.dtype)
    size = x.shape[axis]
    if isinstance(size, int) and index_vector.data is not None and g.opset >= 9:
        mask = torch.zeros(size, dtype=torch.bool).index_fill(0, index_vector.data.long() % size, True)
        filled = emit.where(g, g.constant(mask.reshape([-1] + [1] * (x.rank - axis - 1))), fill, x)
    else:
        shape = [*x.shape[:axis], index_vector.shape[0], *x.shape[axis + 1 :]]
        filled = _scatter_along(g, x, axis, index_vector, emit.expand(g, fill, shape))
    return emit.reshape(g, filled, self.shape or ())


@converter("aten::take")
def take(g: Builder, self: Value, index: Value) -> Value:
    """aten::take(Tensor self, Tensor index) -> Tensor"""
    return g.op("Gather", emit.reshape(g, self, [math.prod(self.shape or ())]), index, axis=0)


@converter("aten::put")
def put(g: Builder, self: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    flat, index_vector, values = (
        emit.reshape(g, value, [math.prod(value.shape or ())]) for value in (self, index, source)
    )
    placed = emit.scatter_elements(g, flat, index_vector, values, 0, "add" if accumulate else "none")
    return emit.reshape(g, placed, self.shape or ())


@converter("aten::take_along_dim")
def take_along_dim(g: Builder, self: Value, indices: Value, dim: int | None = None) -> Value:
    """aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"""
    assert self.shape is not None and indices.shape is not None
    if dim is None:
        flat, index_vector = (emit.reshape(g, value, [math.prod(value.shape or ())]) for value in (self, indices))
        return g.op("Gather", flat, index_vector, axis=0)
    axis = dim % max(self.rank, 1)
    common = list(g.outputs[0].shape)
    index_vector = emit.expand(g, indices, [*common[:axis], indices.shape[axis], *common[axis + 1 :]])
    source = emit.expand(g, self, [*common[:axis], self.shape[axis], *common[axis + 1 :]])
    return emit.gather_elements(g, source, index_vector, axis)
