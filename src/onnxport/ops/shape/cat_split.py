"""cat, stack, split, chunk and unbind."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise

import torch

from onnxport.graph.sizes import Size, product
from onnxport.graph.sizes.expr import larger
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import AnySize, Value
from onnxport.ops.shape.shape import at_least


@converter("aten::cat", "aten::concat", "aten::concatenate")
def cat(g: Builder, tensors: list[Value], dim: int = 0) -> Value:
    """aten::cat(Tensor[] tensors, int dim=0) -> Tensor"""
    return _joined(g, tensors, dim)


@converter("aten::stack")
def stack(g: Builder, tensors: list[Value], dim: int = 0) -> Value:
    """aten::stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = dim % (tensors[0].rank + 1)
    return _joined(g, [emit.unsqueeze(g, tensor, [axis]) for tensor in tensors], axis)


@converter("aten::hstack")
def hstack(g: Builder, tensors: list[Value]) -> Value:
    """aten::hstack(Tensor[] tensors) -> Tensor"""
    parts = [at_least(g, tensor, 1) for tensor in tensors]
    return _joined(g, parts, 0 if parts[0].rank == 1 else 1)


@converter("aten::vstack", "aten::row_stack")
def vstack(g: Builder, tensors: list[Value]) -> Value:
    """aten::vstack(Tensor[] tensors) -> Tensor"""
    return _joined(g, [at_least(g, tensor, 2) for tensor in tensors], 0)


@converter("aten::dstack")
def dstack(g: Builder, tensors: list[Value]) -> Value:
    """aten::dstack(Tensor[] tensors) -> Tensor"""
    return _joined(g, [at_least(g, tensor, 3) for tensor in tensors], 2)


@converter("aten::column_stack")
def column_stack(g: Builder, tensors: list[Value]) -> Value:
    """aten::column_stack(Tensor[] tensors) -> Tensor"""
    columns = [emit.unsqueeze(g, tensor, {0: [0, 1], 1: [1]}.get(tensor.rank, [])) for tensor in tensors]
    return _joined(g, columns, 1)


def _joined(g: Builder, tensors: Sequence[Value], dim: int) -> Value:
    """Tensors concatenated in their common dtype. Empty vectors are skipped, whatever the rank of the others."""
    parts = [tensor for tensor in tensors if tensor.shape != (0,)] or list(tensors[:1])
    dtype = g.outputs[0].dtype
    if len(parts) == 1:
        return g.cast(parts[0], dtype)
    return g.op("Concat", *(g.cast(part, dtype) for part in parts), axis=dim % parts[0].rank)


@converter("aten::_chunk_cat")
def chunk_cat(g: Builder, tensors: list[Value], dim: int, num_chunks: int) -> Value:
    """aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor"""
    rows = []
    for tensor in tensors:
        assert tensor.shape is not None
        axis, shape = dim % tensor.rank, tensor.shape
        size = shape[axis]
        rows_each = (size + num_chunks - 1) // num_chunks
        pads: list[Size] = [0] * (2 * tensor.rank)
        pads[tensor.rank + axis] = rows_each * num_chunks - size
        padded = emit.pad(g, tensor, pads)
        rows.append(emit.reshape(g, padded, [*shape[:axis], num_chunks, product([rows_each, *shape[axis + 1 :]])]))
    return _joined(g, rows, -1)


@converter("aten::split.Tensor", "aten::unsafe_split.Tensor")
def split(g: Builder, self: Value, split_size: AnySize, dim: int = 0) -> Sequence[Value]:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    return _equal_parts(g, self, split_size, dim % self.rank)


@converter("aten::split_with_sizes", "aten::unsafe_split_with_sizes", "aten::split_with_sizes_copy")
def split_with_sizes(g: Builder, self: Value, split_sizes: list[AnySize], dim: int = 0) -> Sequence[Value]:
    """aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return emit.split(g, self, _sizes(g, dim % self.rank, split_sizes), dim % self.rank)


@converter("aten::split.sizes")
def split_sizes(g: Builder, self: Value, split_size: list[AnySize], dim: int = 0) -> Sequence[Value]:
    """aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"""
    return emit.split(g, self, _sizes(g, dim % self.rank, split_size), dim % self.rank)


@converter("aten::chunk", "aten::unsafe_chunk")
def chunk(g: Builder, self: Value, chunks: int, dim: int = 0) -> Sequence[Value]:
    """aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    assert self.shape is not None
    axis = dim % self.rank
    size = self.shape[axis]
    if isinstance(size, int):
        return emit.split(g, self, _sizes(g, axis), axis)
    if g.opset >= 18 and len(g.outputs) == chunks > 1:
        return g.op("Split", self, outputs=chunks, axis=axis, num_outputs=chunks)
    rounded = g.op("Add", sizes.scalar(g, size), chunks - 1)
    return _equal_parts(g, self, g.op("Div", rounded, chunks), axis)


def _sizes(g: Builder, axis: int, requested: Sequence[AnySize] | None = None) -> list[AnySize]:
    """The captured size of each part; for a dynamic one, the model's own computation of it."""
    found = [output.shape[axis] for output in g.outputs]
    pairs = zip(found, requested or found, strict=True)
    return [size if isinstance(size, int) and sizes.known(own) is not None else own for size, own in pairs]


def _equal_parts(g: Builder, x: Value, size: AnySize, axis: int) -> Sequence[Value]:
    """Parts of equal size; the last one may be smaller."""
    assert x.shape is not None
    found = _sizes(g, axis)
    if isinstance(x.shape[axis], int) and all(isinstance(part, int) for part in found):
        return emit.split(g, x, found, axis)
    bounds = [_times(g, size, count) for count in range(len(g.outputs))]
    return _between(g, x, [*bounds, emit.INT64_MAX], axis)


def _times(g: Builder, size: AnySize, count: int) -> AnySize:
    if count < 2:
        return size if count else 0
    return g.op("Mul", size, count) if isinstance(size, Value) else size * count


def _between(g: Builder, x: Value, bounds: Sequence[AnySize], axis: int) -> list[Value]:
    return [x if len(bounds) == 2 else emit.slice_(g, x, [start], [end], [axis]) for start, end in pairwise(bounds)]


@converter("aten::tensor_split.sections")
def tensor_split(g: Builder, self: Value, sections: int, dim: int = 0) -> Sequence[Value]:
    """aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"""
    return _even_parts(g, self, sections, dim % self.rank)


@converter("aten::tensor_split.indices")
def tensor_split_indices(g: Builder, self: Value, indices: list[AnySize], dim: int = 0) -> Sequence[Value]:
    """aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"""
    return _parts_at(g, self, indices, dim % self.rank)


@converter("aten::tensor_split.tensor_indices_or_sections")
def tensor_split_tensor(g: Builder, self: Value, tensor_indices_or_sections: Value, dim: int = 0) -> Sequence[Value]:
    """aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]"""  # noqa: E501
    sections, axis = tensor_indices_or_sections, dim % self.rank
    if sections.data is not None and sections.rank > 0:
        return _parts_at(g, self, sections.data.tolist(), axis)
    if sections.data is not None:
        return _even_parts(g, self, int(sections.data), axis)
    if sections.rank == 0:
        g.unsupported("the number of results is data-dependent, and a graph has a fixed number")
    bounds = [g.op("Gather", sections, g.constant(i, torch.int64), axis=0) for i in range(len(g.outputs) - 1)]
    return _between(g, self, [0, *bounds, emit.INT64_MAX], axis)


def _split_along(axis_of: dict[int, int], otherwise: int) -> Converter:
    def convert(
        g: Builder, self: Value, sections: int | None = None, indices: list[AnySize] | None = None
    ) -> Sequence[Value]:
        axis = axis_of.get(self.rank, otherwise)
        return _even_parts(g, self, sections, axis) if sections is not None else _parts_at(g, self, indices or [], axis)

    return convert


SPLITS = entries(_split_along, {"aten::hsplit": ({1: 0}, 1), "aten::vsplit": ({}, 0), "aten::dsplit": ({}, 2)})


def _even_parts(g: Builder, x: Value, sections: int, axis: int) -> Sequence[Value]:
    """Parts with sizes that differ by at most 1, the larger ones first."""
    assert x.shape is not None
    size = x.shape[axis]
    if isinstance(size, int):
        return emit.split(g, x, _sizes(g, axis), axis)
    length = sizes.scalar(g, size)
    quotient, rest = g.op("Div", length, sections), g.op("Mod", length, sections)
    starts = g.op("Mul", quotient, g.constant(list(range(sections)), torch.int64))
    starts = g.op("Add", starts, g.op("Min", rest, g.constant(list(range(sections)), torch.int64)))
    bounds = [g.op("Gather", starts, g.constant(i, torch.int64), axis=0) for i in range(1, sections)]
    return _between(g, x, [0, *bounds, emit.INT64_MAX], axis)


def _parts_at(g: Builder, x: Value, indices: Sequence[AnySize], axis: int) -> Sequence[Value]:
    """The slices between indices, which count as in Python."""
    found = _sizes(g, axis)
    total: Size = sum(size for size in found if isinstance(size, int))
    increasing = all(isinstance(index, int) and index >= 0 for index in indices)
    if x.shape is not None and total == x.shape[axis] and increasing and all(isinstance(s, int) for s in found):
        return emit.split(g, x, found, axis)
    return _between(g, x, [0, *indices, emit.INT64_MAX], axis)


@converter("aten::unbind.int", "aten::unbind_copy.int")
def unbind(g: Builder, self: Value, dim: int = 0) -> list[Value]:
    """aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    axis = dim % self.rank
    if len(g.outputs) == 1:
        return [emit.squeeze(g, self, [axis])]
    return [g.op("Gather", self, g.constant(i, torch.int64), axis=axis) for i in range(len(g.outputs))]


@converter("aten::meshgrid")
def meshgrid(g: Builder, tensors: list[Value], indexing: str = "ij") -> list[Value]:
    """aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    return [_along(g, x, axis, g.outputs[0].shape) for x, axis in zip(tensors, order, strict=True)]


@converter("aten::cartesian_prod")
def cartesian_prod(g: Builder, tensors: list[Value]) -> Value:
    """aten::cartesian_prod(Tensor[] tensors) -> Tensor"""
    if len(tensors) == 1:
        return tensors[0]
    shape = tuple(size for tensor in tensors for size in tensor.shape or ())
    grids = [_along(g, x, axis, shape) for axis, x in enumerate(tensors)]
    columns = [g.op("Reshape", grid, [-1, 1]) for grid in grids]
    return _joined(g, columns, 1)


def _along(g: Builder, x: Value, axis: int, shape: Sequence[Size]) -> Value:
    """A vector along one axis of a grid."""
    if x.rank == 0:
        x = emit.unsqueeze(g, x, [0])
    return emit.expand(g, emit.unsqueeze(g, x, [i for i in range(len(shape)) if i != axis]), shape)


@converter("aten::pad_sequence")
def pad_sequence(
    g: Builder,
    sequences: list[Value],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Value:
    """aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side="right")
    -> Tensor"""
    lengths = [tensor.shape[0] for tensor in sequences if tensor.shape is not None]
    longest = functools.reduce(larger, lengths)
    batch_axis = 0 if batch_first else 1
    rows = []
    for tensor, length in zip(sequences, lengths, strict=True):
        before, after = (0, longest - length) if padding_side == "right" else (longest - length, 0)
        others = [0] * (tensor.rank - 1)
        padded = emit.pad(g, tensor, [before, *others, after, *others], value=padding_value)
        rows.append(emit.unsqueeze(g, padded, [batch_axis]))
    return _joined(g, rows, batch_axis)


@converter("aten::block_diag")
def block_diag(g: Builder, tensors: list[Value]) -> Value:
    """aten::block_diag(Tensor[] tensors) -> Tensor"""
    blocks = [g.cast(at_least(g, tensor, 2), g.outputs[0].dtype) for tensor in tensors]
    widths = [block.shape[1] for block in blocks if block.shape is not None]
    total = sum(widths, 0)
    before: Size = 0
    rows = []
    for block, width in zip(blocks, widths, strict=True):
        rows.append(emit.pad(g, block, [0, before, 0, total - before - width]))
        before = before + width
    return _joined(g, rows, 0)
