"""Indexing, scattering and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.graph.ir import Node, Value
from onnxport.graph.shapes.bound import axis_of, length, number, replaced, tensor
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.shapes.splits import diagonal, select, slice_
from onnxport.graph.sizes import Shape, Size
from onnxport.graph.sizes.shapes import product

MASKS = (torch.bool, torch.uint8)


def index_select(require: Requirements, self: Shape, dim: int, index: Shape, **_: Any) -> Shape:
    axis = axis_of(dim, len(self))
    count = index[0] if index else 1
    _require_elements(require, self[axis : axis + 1], (count,))
    return replaced(self, axis, count) if self else self


def _require_elements(require: Requirements, sizes: Sequence[Size], picked: Sequence[Size]) -> None:
    """An empty axis has no elements to select."""
    for size in sizes:
        if type(size) is not int or size < 1:
            reason = "no element can be selected from an empty axis"
            require.hold(lambda of, *counts: of > 0 or 0 in counts, reason, size, *picked)


def take(require: Requirements, self: Shape, index: Shape, **_: Any) -> Shape:
    _require_elements(require, [product(self)], index)
    return index


def gather(require: Requirements, self: Shape, dim: int, index: Shape, **_: Any) -> Shape:
    """The index may be smaller along the other axes."""
    _require_inside(require, index, self, axis_of(dim, len(self)))
    return index


def _require_inside(require: Requirements, index: Shape, shape: Shape, axis: int | None = None) -> None:
    """The index may not be larger than the tensor except along ``axis``, unless it is empty."""
    index, shape = index or (1,), shape or (1,)
    if len(index) != len(shape):
        raise NotKnown
    for dim, (size, limit) in enumerate(zip(index, shape, strict=True)):
        if dim != axis and size is not limit:
            reason = "the size of an index is too large"
            require.hold(lambda size, most, *sizes: size <= most or 0 in sizes, reason, size, limit, *index)
    if axis is not None:
        _require_elements(require, [shape[axis]], index)


def take_along_dim(require: Requirements, self: Shape, indices: Shape, dim: Any = None, **_: Any) -> Shape:
    """All axes except ``dim`` broadcast."""
    if dim is None:
        return (product(indices),)
    if len(self) != len(indices) or not self:
        raise NotKnown
    axis = axis_of(dim, len(self))
    together = require.broadcast(replaced(self, axis, 1), replaced(indices, axis, 1))
    result = replaced(together, axis, indices[axis])
    _require_elements(require, [self[axis]], result)
    return result


def index(require: Requirements, node: Node, self: Shape, indices: Sequence[Any], **_: Any) -> Shape:
    """The axes of the broadcast indices replace the indexed ones, or come first if those are not adjacent."""
    if _has_masks(node) or len(indices) > len(self):
        raise NotKnown
    indexed = [axis for axis, shape in enumerate(indices) if shape is not None]
    together = require.broadcast(*(tensor(indices[axis]) for axis in indexed))
    _require_elements(require, [self[axis] for axis in indexed], together)
    kept = [size for axis, size in enumerate(self) if axis not in indexed]
    first = indexed[0] if indexed == list(range(indexed[0], indexed[-1] + 1)) else 0
    return (*kept[:first], *together, *kept[first:])


def _has_masks(node: Node) -> bool:
    """Whether an index is a bool mask, with a data-dependent number of selected elements."""
    return any(isinstance(index, Value) and index.dtype in MASKS for index in node.inputs["indices"])


def embedding(require: Requirements, weight: Shape, indices: Shape, **_: Any) -> Shape:
    _require_elements(require, weight[:1], indices)
    return (*indices, *weight[1:])


def one_hot(require: Requirements, self: Shape, num_classes: Any = -1, **_: Any) -> Shape:
    """Without ``num_classes`` the size is data-dependent."""
    classes = number(num_classes)
    require.at_least(classes, 1)
    return (*self, classes)


def bins(require: Requirements, bins: Any, **_: Any) -> Shape:
    count = number(bins)
    require.at_least(count, 1)
    return (count,)


# Written


def scatter(require: Requirements, self: Shape, dim: int, index: Shape, **sources: Any) -> Shape:
    """A non-empty index may not be larger than the source and the target."""
    _require_inside(require, index, self, axis_of(dim, len(self)))
    source = sources.get("src")
    if type(source) is tuple:
        _require_inside(require, index, source)
    return self


def index_put(require: Requirements, node: Node, self: Shape, indices: Sequence[Any], values: Shape, **_: Any) -> Shape:
    """The number of elements in a mask is data-dependent; a single value fits any number."""
    if not _has_masks(node):
        require.expandable(values, index(require, node, self, indices))
    elif not all(type(size) is int and size == 1 for size in values):
        raise NotKnown
    return self


def index_copy(require: Requirements, self: Shape, dim: int, index: Shape, source: Shape, **_: Any) -> Shape:
    _require_slices(require, self, dim, index, source)
    if self:
        _require_elements(require, [self[axis_of(dim, len(self))]], source)
    return self


def index_add(require: Requirements, self: Shape, dim: int, index: Shape, source: Shape, **_: Any) -> Shape:
    """torch does not check sources for empty matrices."""
    _require_slices(require, self, dim, index, source)
    if len(self) == 1:
        _require_elements(require, self, source)
    return self


def _require_slices(require: Requirements, shape: Shape, dim: int, index: Shape, source: Shape) -> None:
    """The source needs a slice for each index."""
    axis = axis_of(dim, len(shape))
    if len(source) != len(shape) or len(index) > 1:
        raise NotKnown
    if shape:
        require.same([replaced(shape, axis), replaced(source, axis)])
        require.equal(index[0] if index else 1, source[axis], "indices and slices")


def index_fill(require: Requirements, self: Shape, dim: int, index: Shape, **_: Any) -> Shape:
    if self:
        axis = axis_of(dim, len(self))
        _require_elements(require, [self[axis]], replaced(self, axis, index[0] if index else 1))
    return self


def slice_scatter(require: Requirements, self: Shape, src: Shape, **slices: Any) -> Shape:
    require.expandable(src, slice_(require, self, **slices))
    return self


def select_scatter(require: Requirements, self: Shape, src: Shape, dim: int, index: Any, **_: Any) -> Shape:
    require.same([src, select(require, self, dim, index)])
    return self


def diagonal_scatter(require: Requirements, self: Shape, src: Shape, **where: Any) -> Shape:
    require.same([src, diagonal(require, self, **where)])
    return self


# In order


def topk(require: Requirements, self: Shape, k: Any, dim: int = -1, **_: Any) -> list[Shape]:
    axis, count = axis_of(dim, len(self)), length(require, k)
    require.at_least(self[axis] if self else 1, count)
    return [replaced(self, axis, count) if self else ()] * 2


def sort(require: Requirements, self: Shape, **_: Any) -> list[Shape]:
    return [self, self]


def like_values(require: Requirements, self: Any, **_: Any) -> Shape:
    """One result for each value that is looked up."""
    return self if type(self) is tuple else ()


def searchsorted(require: Requirements, sorted_sequence: Shape, self: Any, **_: Any) -> Shape:
    """Sequences with several rows need as many rows of values."""
    values = self if type(self) is tuple else ()
    if len(sorted_sequence) > 1:
        require.same([sorted_sequence[:-1], values[:-1]])
    return values


def isin(require: Requirements, elements: Any = (), **_: Any) -> Shape:
    return elements if type(elements) is tuple else ()
