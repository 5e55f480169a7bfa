"""Slices, selections, splits, windows and diagonals."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from onnxport.graph.shapes.bound import axis_of, constant, divided_up, length, number, replaced, total
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size, apply
from onnxport.graph.sizes.expr import larger, smaller
from onnxport.graph.sizes.shapes import product
from onnxport.graph.sizes.shapes import size as size_at

OTHER_PARTS = "the number of parts has to be the same"

# Slices


def slice_(
    require: Requirements, self: Shape, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1, **_: Any
) -> Shape:
    axis = axis_of(dim, len(self))
    if not self or type(step) is not int or step < 1:
        raise NotKnown
    size = self[axis]
    first: Size = 0 if start is None else _bound(require, number(start), size)
    last: Size = size if end is None else _bound(require, number(end), size)
    length = require.not_negative(last - first)
    return replaced(self, axis, length if step == 1 else divided_up(length, step))


def _bound(require: Requirements, bound: Size, size: Size) -> Size:
    """A bound of a slice as an index from 0 to the size."""
    if not require.ever("ge", bound, 0):
        return require.not_negative(bound + size)
    if require.ever("lt", bound, 0):
        counted = apply("where", apply("lt", bound, 0), larger(bound + size, 0), bound)
        bound = number(counted)
    if type(bound) is int and bound == 0:
        return bound
    if not require.ever("lt", bound, size):
        return size
    return smaller(bound, size) if require.ever("gt", bound, size) else bound


def narrow(require: Requirements, self: Shape, dim: int, start: Any, length: Any, **_: Any) -> Shape:
    """The content of a ``start`` tensor is data-dependent."""
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    count = number(length)
    require.at_least(count, 0)
    if type(start) is tuple:
        require.at_least(self[axis], count)
    else:

        def is_inside(first: int, count: int, size: int) -> bool:
            return -size <= first <= size and (first if first >= 0 else first + size) + count <= size

        require.hold(is_inside, "start, length and size", number(start), count, self[axis])
    return replaced(self, axis, count)


def select(require: Requirements, self: Shape, dim: int, index: Any, **_: Any) -> Shape:
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    require.hold(
        lambda at, size: -size <= at < size, "an index is out of range for the size", number(index), self[axis]
    )
    return replaced(self, axis)


def unbind(require: Requirements, self: Shape, dim: int = 0, **_: Any) -> list[Shape]:
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    count = require.at(self[axis])[0]
    require.hold_form(operator.eq, OTHER_PARTS, self[axis], count)
    return [replaced(self, axis)] * count


# Pieces


def split(require: Requirements, self: Shape, split_size: Any, dim: int = 0, **_: Any) -> list[Shape]:
    """Pieces of one size, the last may be shorter; there is at least one."""
    if isinstance(split_size, list):
        return split_with_sizes(require, self, split_size, dim)
    axis = axis_of(dim, len(self))
    piece = number(split_size)
    if not self or 0 in require.at(piece):
        raise NotKnown
    require.at_least(piece, 1)
    counts = [max(-(-size // by), 1) for size, by in zip(require.at(self[axis]), require.at(piece), strict=True)]
    return _pieces(require, self, axis, piece, counts)


def _pieces(require: Requirements, shape: Shape, axis: int, piece: Size, counts: Sequence[int]) -> list[Shape]:
    count = counts[0]
    require.hold_form(operator.eq, OTHER_PARTS, size_at(counts), count)
    if count == 1:
        return [shape]
    last = shape[axis] - piece * (count - 1)
    return [replaced(shape, axis, part) for part in (*[piece] * (count - 1), last)]


def split_with_sizes(
    require: Requirements, self: Shape, split_sizes: Sequence[Any], dim: int = 0, **_: Any
) -> list[Shape]:
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    parts = [length(require, size) for size in split_sizes]
    require.equal(total(parts), self[axis], "the sum of the parts and the size")
    return [replaced(self, axis, part) for part in parts]


def chunk(require: Requirements, self: Shape, chunks: int, dim: int = 0, **_: Any) -> list[Shape]:
    """The number of pieces is at most ``chunks``, or ``chunks`` empty ones for an empty axis."""
    axis = axis_of(dim, len(self))
    if not self or constant(chunks) < 1:
        raise NotKnown
    piece = divided_up(self[axis], chunks)
    pairs = zip(require.at(self[axis]), require.at(piece), strict=True)
    counts = [-(-size // by) if size else chunks for size, by in pairs]
    return _pieces(require, self, axis, piece, counts)


def tensor_split(
    require: Requirements, self: Shape, sections: Any = None, indices: Any = None, dim: int = 0, **_: Any
) -> list[Shape]:
    """A number of parts, the first ones larger by 1 if the size is not a multiple; or parts between indices."""
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    if indices is not None:
        starts, ends = [0, *indices], [*indices, None]
        pairs = zip(starts, ends, strict=True)
        return [slice_(require, self, axis, start, end) for start, end in pairs]
    count = constant(sections)
    if count < 1:
        raise NotKnown
    return [replaced(self, axis, (self[axis] + (count - 1 - index)) // count) for index in range(count)]


def split_along(dim: int) -> Any:
    """``vsplit``, ``hsplit`` and ``dsplit``: equal parts along one axis, or parts between indices."""

    def shapes(require: Requirements, self: Shape, sections: Any = None, indices: Any = None, **_: Any) -> list[Shape]:
        axis = 0 if dim == 1 and len(self) == 1 else dim
        if axis >= len(self):
            raise NotKnown
        if indices is None:
            require.multiple(self[axis], constant(sections))
        return tensor_split(require, self, sections, indices, axis)

    return shapes


# Windows and diagonals


def unfold(require: Requirements, self: Shape, dimension: int, size: Any, step: Any, **_: Any) -> Shape:
    axis = axis_of(dimension, len(self))
    window, stride = length(require, size), number(step)
    require.at_least(stride, 1, "the step")
    whole = self[axis] if self else 1
    require.at_least(whole, window)
    return (*replaced(self, axis, (whole - window) // stride + 1), window) if self else (window,)


def diagonal(require: Requirements, self: Shape, offset: Any, dim1: int, dim2: int, **_: Any) -> Shape:
    """The diagonal becomes the last axis."""
    first, second = axis_of(dim1, len(self)), axis_of(dim2, len(self))
    if first == second:
        raise NotKnown
    rest = tuple(size for axis, size in enumerate(self) if axis not in (first, second))
    return (*rest, _diagonal_length(require, self[first], self[second], constant(offset)))


def linalg_diagonal(require: Requirements, A: Shape, **arguments: Any) -> Shape:
    return diagonal(require, A, **arguments)


def _diagonal_length(require: Requirements, rows: Size, columns: Size, offset: int) -> Size:
    rows, columns = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    shorter = rows if rows is columns else smaller(rows, columns)
    return require.not_negative(shorter)


def diag(require: Requirements, self: Shape, diagonal: Any = 0, **_: Any) -> Shape:
    """A matrix from its diagonal, or the diagonal of a matrix."""
    offset = constant(diagonal)
    if len(self) == 2:
        return (_diagonal_length(require, *self, offset),)
    if len(self) != 1:
        raise NotKnown
    return (self[0] + abs(offset),) * 2


def diagflat(require: Requirements, self: Shape, offset: Any = 0, **_: Any) -> Shape:
    return (product(self) + abs(constant(offset)),) * 2


def diag_embed(require: Requirements, self: Shape, offset: Any, dim1: int, dim2: int, **_: Any) -> Shape:
    """The last axis becomes a diagonal of matrices along two axes of the result."""
    first, second = axis_of(dim1, len(self) + 1), axis_of(dim2, len(self) + 1)
    if first == second or not self:
        raise NotKnown
    length = self[-1] + abs(constant(offset))
    rest = iter(self[:-1])
    return tuple(length if axis in (first, second) else next(rest) for axis in range(len(self) + 1))


def trace(require: Requirements, self: Shape, **_: Any) -> Shape:
    if len(self) != 2:
        raise NotKnown
    return ()
