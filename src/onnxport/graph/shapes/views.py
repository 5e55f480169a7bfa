"""Operators that change the shape and keep the elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.graph.ir import Node
from onnxport.graph.shapes.bound import axes_of, axis_of, number, replaced, tensor
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size, SizeExpr
from onnxport.graph.sizes.shapes import product


def reshape(require: Requirements, self: Shape, shape: Sequence[Any], **_: Any) -> Shape:
    """One size may be -1; torch does not define it for an empty tensor."""
    wanted = [number(size) for size in shape]
    rest = [axis for axis, size in enumerate(wanted) if type(size) is int and size == -1]
    known = [size for axis, size in enumerate(wanted) if axis not in rest]
    for size in known:
        if not rest:
            _require_not_minus_one(require, self, size)
        require.at_least(size, 1 if rest else 0)
    if not rest:
        _require_same_count(require, self, known)
        return tuple(wanted)
    if len(rest) > 1:
        raise NotKnown
    wanted[rest[0]] = _quotient(require, self, known)
    return tuple(wanted)


def _require_not_minus_one(require: Requirements, shape: Shape, size: Size) -> None:
    """Refuse a number that is -1 at some point: it would mean the remaining size there."""
    for at_point, *sizes in zip(*map(require.at, (size, *shape)), strict=True):
        if at_point == -1 and min(sizes, default=0) >= 0:
            raise NotKnown


def _require_same_count(require: Requirements, shape: Sequence[Size], wanted: Sequence[Size]) -> None:
    require.equal(product(shape), product(wanted), "the numbers of elements")


def _quotient(require: Requirements, shape: Shape, wanted: Sequence[Size]) -> Size:
    """The quotient of the numbers of elements; sizes in both are cancelled first."""
    left, right = list(shape), list(wanted)
    for size in wanted:
        if size in left and isinstance(size, SizeExpr):
            left.remove(size)
            right.remove(size)
    above, below = product(left), product(right)
    if type(above) is int and type(below) is int:
        common = math.gcd(above, below)
        above, below = above // common, below // common
    if type(below) is int and below == 1:
        return above
    whole = above // below
    require.equal(whole * below, above, "the numbers of elements")
    return whole


def view(require: Requirements, self: Shape, size: Sequence[Any], **_: Any) -> Shape:
    return reshape(require, self, size)


def view_as(require: Requirements, self: Shape, other: Shape, **_: Any) -> Shape:
    _require_same_count(require, self, other)
    return other


def view_dtype(require: Requirements, node: Node, self: Shape, dtype: Any, **_: Any) -> Shape:
    """A view as another dtype, with elements of another width."""
    if not isinstance(dtype, torch.dtype):
        raise NotKnown
    old, new = node.inputs["self"].dtype.itemsize, dtype.itemsize
    if old == new:
        return self
    if not self:
        raise NotKnown
    if old > new:
        return (*self[:-1], self[-1] * (old // new))
    require.multiple(self[-1], new // old)
    require.at_least(self[-1], 1 if len(self) > 1 else 0)
    return (*self[:-1], self[-1] // (new // old))


def view_as_real(require: Requirements, self: Shape, **_: Any) -> Shape:
    return (*self, 2)


def view_as_complex(require: Requirements, self: Shape, **_: Any) -> Shape:
    if not self:
        raise NotKnown
    require.equal(self[-1], 2)
    return self[:-1]


def expand(require: Requirements, self: Shape, size: Sequence[Any], **_: Any) -> Shape:
    wanted = [number(argument) for argument in size]
    offset = len(wanted) - len(self)
    if offset < 0:
        raise NotKnown
    for axis, wanted_size in enumerate(wanted):
        if type(wanted_size) is int and wanted_size == -1 and axis >= offset:
            wanted[axis] = self[axis - offset]
        else:
            _require_not_minus_one(require, self, wanted_size)
            require.at_least(wanted_size, 0)
    require.expandable(self, wanted)
    return tuple(wanted)


def expand_as(require: Requirements, self: Shape, other: Shape, **_: Any) -> Shape:
    return expand(require, self, other)


def sum_to_size(require: Requirements, self: Shape, size: Sequence[Any], **_: Any) -> Shape:
    wanted = tuple(number(argument) for argument in size)
    require.expandable(wanted, self)
    return wanted


def broadcast_tensors(require: Requirements, tensors: Sequence[Any], **_: Any) -> list[Shape]:
    return [require.broadcast(*map(tensor, tensors))] * len(tensors)


# Other orders of axes


def transpose(require: Requirements, self: Shape, dim0: int, dim1: int, **_: Any) -> Shape:
    axes = list(range(len(self)))
    if not axes:
        return self
    left, right = axis_of(dim0, len(self)), axis_of(dim1, len(self))
    axes[left], axes[right] = right, left
    return tuple(self[axis] for axis in axes)


def swapaxes(require: Requirements, self: Shape, axis0: int, axis1: int, **_: Any) -> Shape:
    return transpose(require, self, axis0, axis1)


def permute(require: Requirements, self: Shape, dims: Sequence[int], **_: Any) -> Shape:
    if len(dims) != len(self):
        raise NotKnown
    return tuple(self[axis_of(dim, len(self))] for dim in dims)


def reversed_axes(require: Requirements, self: Shape, **_: Any) -> Shape:
    return self[::-1]


def last_two_swapped(require: Requirements, self: Shape, **_: Any) -> Shape:
    if len(self) < 2:
        raise NotKnown
    return (*self[:-2], self[-1], self[-2])


def movedim(require: Requirements, self: Shape, source: Any, destination: Any, **_: Any) -> Shape:
    sources, targets = axes_of(source, len(self)), axes_of(destination, len(self))
    rest = iter(axis for axis in range(len(self)) if axis not in sources)
    order = dict(zip(targets, sources, strict=True))
    return tuple(self[order[axis] if axis in order else next(rest)] for axis in range(len(self)))


def rot90(require: Requirements, self: Shape, k: int, dims: Sequence[int], **_: Any) -> Shape:
    if type(k) is not int:
        raise NotKnown
    return transpose(require, self, *dims) if k % 2 else self


# More or fewer axes


def unsqueeze(require: Requirements, self: Shape, dim: int, **_: Any) -> Shape:
    axis = axis_of(dim, len(self) + 1)
    return (*self[:axis], 1, *self[axis:])


def squeeze(require: Requirements, self: Shape, dim: Any = None, **_: Any) -> Shape:
    """An axis of size 1 is dropped; it has to be dropped, or kept, at all points as in the recorded run."""
    axes = range(len(self)) if dim is None else axes_of(dim, len(self)) if self else ()
    gone = set()
    for axis in axes:
        if require.at(self[axis])[0] == 1:
            require.hold_form(operator.eq, "the size of a squeezed axis and 1 have to be equal", self[axis], 1)
            gone.add(axis)
        else:
            require.hold_form(operator.ne, "the size of a squeezed axis may not become 1", self[axis], 1)
    return tuple(size for axis, size in enumerate(self) if axis not in gone)


def flatten(require: Requirements, self: Shape, start_dim: int = 0, end_dim: int = -1, **_: Any) -> Shape:
    if not self:
        return (1,)
    start, end = axis_of(start_dim, len(self)), axis_of(end_dim, len(self))
    return (*self[:start], product(self[start : end + 1]), *self[end + 1 :])


def unflatten(require: Requirements, self: Shape, dim: int, sizes: Sequence[Any], **_: Any) -> Shape:
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    return replaced(self, axis, *reshape(require, (self[axis],), sizes))


def at_least_1d(require: Requirements, self: Shape, **_: Any) -> Shape:
    return self or (1,)


def at_least_2d(require: Requirements, self: Shape, **_: Any) -> Shape:
    return self if len(self) > 1 else (1, *at_least_1d(require, self))


def at_least_3d(require: Requirements, self: Shape, **_: Any) -> Shape:
    return self if len(self) > 2 else (*at_least_2d(require, self), 1)


def each_at_least(function: Callable[..., Shape]) -> Any:
    """The function for each tensor of a list."""

    def shapes(require: Requirements, tensors: Sequence[Any], **_: Any) -> list[Shape]:
        return [function(require, tensor(shape)) for shape in tensors]

    return shapes
