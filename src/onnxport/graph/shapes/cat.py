"""Operators that join, repeat or pad tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from onnxport.graph.shapes.bound import axis_of, constant, length, number, replaced, tensor, total
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.shapes.views import at_least_1d, at_least_2d, at_least_3d
from onnxport.graph.sizes import Shape, Size
from onnxport.graph.sizes.expr import larger, smaller
from onnxport.graph.sizes.shapes import product


def cat(require: Requirements, tensors: Sequence[Any], dim: int = 0, **_: Any) -> Shape:
    """Empty 1-dim tensors are ignored, whatever the others are."""
    parts = [tensor(shape) for shape in tensors]
    shapes = [shape for shape in parts if shape != (0,)] or parts[:1]
    if not shapes or not shapes[0]:
        raise NotKnown
    axis = axis_of(dim, len(shapes[0]))
    require.same([replaced(shape, axis) for shape in shapes])
    return replaced(shapes[0], axis, total(shape[axis] for shape in shapes))


def stack(require: Requirements, tensors: Sequence[Any], dim: int = 0, **_: Any) -> Shape:
    shapes = [tensor(shape) for shape in tensors]
    require.same(shapes)
    axis = axis_of(dim, len(shapes[0]) + 1)
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:])


def stacked_rows(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    return cat(require, [at_least_2d(require, tensor(shape)) for shape in tensors], 0)


def stacked_columns(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    """``hstack``: vectors are joined along their only axis."""
    shapes = [at_least_1d(require, tensor(shape)) for shape in tensors]
    return cat(require, shapes, 0 if len(shapes[0]) == 1 else 1)


def stacked_depths(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    return cat(require, [at_least_3d(require, tensor(shape)) for shape in tensors], 2)


def column_stack(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    """Vectors are columns."""
    shapes = [tensor(shape) for shape in tensors]
    return cat(require, [shape if len(shape) > 1 else (product(shape), 1) for shape in shapes], 1)


def pad_sequence(require: Requirements, sequences: Sequence[Any], batch_first: bool = False, **_: Any) -> Shape:
    """The first axes get the size of the longest, and lie behind or before the new axis."""
    shapes = [tensor(shape) for shape in sequences]
    if not shapes or not all(shapes):
        raise NotKnown
    require.same([replaced(shape, 0) for shape in shapes])
    longest = functools.reduce(larger, [shape[0] for shape in shapes])
    rows = (len(shapes), longest) if batch_first else (longest, len(shapes))
    return (*rows, *shapes[0][1:])


def block_diag(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    shapes = [at_least_2d(require, tensor(shape)) for shape in tensors]
    return (total(shape[0] for shape in shapes), total(shape[1] for shape in shapes))


def cartesian_prod(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    shapes = [tensor(shape) for shape in tensors]
    if any(len(shape) != 1 for shape in shapes):
        raise NotKnown
    rows = product(shape[0] for shape in shapes)
    return (rows, len(shapes)) if len(shapes) > 1 else (rows,)


def meshgrid(require: Requirements, tensors: Sequence[Any], indexing: str = "ij", **_: Any) -> list[Shape]:
    sizes = [shape[0] if shape else 1 for shape in map(tensor, tensors)]
    if indexing == "xy" and len(sizes) > 1:
        sizes[:2] = sizes[1], sizes[0]
    return [tuple(sizes)] * len(tensors)


def diff(
    require: Requirements, self: Shape, n: Any, dim: int, prepend: Any = None, append: Any = None, **_: Any
) -> Shape:
    """Each difference makes the axis shorter by 1, until it is empty."""
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    parts = [tensor(shape) for shape in (prepend, self, append) if shape is not None]
    joined = cat(require, parts, axis) if constant(n) > 0 else self
    size = joined[axis] - n
    return replaced(joined, axis, require.not_negative(size))


# Repeated


def repeat(require: Requirements, self: Shape, repeats: Sequence[Any], **_: Any) -> Shape:
    if len(repeats) < len(self):
        raise NotKnown
    padded = (*[1] * (len(repeats) - len(self)), *self)
    return tuple(length(require, size * number(times)) for size, times in zip(padded, repeats, strict=True))


def tile(require: Requirements, self: Shape, dims: Sequence[Any], **_: Any) -> Shape:
    return repeat(require, self, [*[1] * (len(self) - len(dims)), *dims])


def repeat_interleave(
    require: Requirements, repeats: Any, self: Shape = (), dim: Any = None, output_size: Any = None, **_: Any
) -> Shape:
    if output_size is not None:
        total = length(require, output_size)
        return (total,) if dim is None or not self else replaced(self, axis_of(dim, len(self)), total)
    times = length(require, repeats)
    if dim is None:
        return (product(self) * times,)
    axis = axis_of(dim, len(self))
    return replaced(self, axis, self[axis] * times) if self else (times,)


# Padded


def pad(require: Requirements, self: Shape, pad: Sequence[Any], mode: str = "constant", **_: Any) -> Shape:
    """``pad`` has pairs of numbers, before and after, from the last axis backwards."""
    if len(pad) % 2 or len(pad) > 2 * len(self):
        raise NotKnown
    result = list(self)
    for index in range(len(pad) // 2):
        axis = len(self) - 1 - index
        before, after = number(pad[2 * index]), number(pad[2 * index + 1])
        result[axis] = self[axis] + before + after
        _require_room(require, mode, self[axis], before, after, result[axis])
    if mode in ("reflect", "replicate"):
        padded = len(self) - len(pad) // 2
        require.not_empty(self[max(padded - 1, 0) : padded], "the channels of a padded tensor")
    return tuple(result)


def _require_room(require: Requirements, mode: str, size: Size, before: Size, after: Size, result: Size) -> None:
    """Reflected and replicated elements come from the axis itself; negative padding is applied first."""
    require.at_least(result, 1 if mode in ("reflect", "replicate") else 0)
    if mode == "constant":
        cut = [smaller(number, 0) for number in (before, after)]
        require.at_least(size + cut[0] + cut[1], 0, "what is left of an axis")
    if mode == "replicate":
        require.at_least(size, 1)
    for more in (before, after) if mode in ("reflect", "circular") else ():
        if mode == "circular" and any(number < 0 for number in require.at(more)):
            raise NotKnown  # torch accepts these only with some strides
        require.at_least(size, more + (mode == "reflect"), "the size of a padded axis")


def reflection_pad(require: Requirements, self: Shape, padding: Sequence[Any], **_: Any) -> Shape:
    return pad(require, self, padding, "reflect")


def replication_pad(require: Requirements, self: Shape, padding: Sequence[Any], **_: Any) -> Shape:
    return pad(require, self, padding, "replicate")


def combinations(require: Requirements, self: Shape, r: int, with_replacement: bool, **_: Any) -> Shape:
    """All selections of ``r`` elements of a vector."""
    if len(self) != 1 or type(r) is not int or r < 1:
        raise NotKnown
    lowest = self[0] if with_replacement else self[0] - (r - 1)
    rows: Size = 1
    for index in range(r):
        rows = rows * (lowest + index) // (index + 1)
    return (require.not_negative(rows), r)


def kron(require: Requirements, self: Shape, other: Shape, **_: Any) -> Shape:
    pairs = itertools.zip_longest(reversed(self), reversed(other), fillvalue=1)
    return tuple(left * right for left, right in pairs)[::-1]
