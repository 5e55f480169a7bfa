"""Factory functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from onnxport.graph.shapes.bound import constant, divided_up, length, number
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size, SizeExpr, apply


def of_size(require: Requirements, size: Sequence[Any], **_: Any) -> Shape:
    return tuple(length(require, argument) for argument in size)


def of_count(name: str) -> Any:
    """A vector with the length in this argument."""

    def shape(require: Requirements, **arguments: Any) -> Shape:
        return (length(require, arguments.get(name)),)

    return shape


def multinomial(require: Requirements, self: Shape, num_samples: Any, replacement: bool, **_: Any) -> Shape:
    """Without ``replacement`` no more elements can be drawn than there are."""
    count = number(num_samples)
    require.at_least(count, 1)
    if not self:
        raise NotKnown
    if not replacement:
        require.at_least(self[-1], count)
    return (*self[:-1], count)


def normal(require: Requirements, mean: Any, std: Any, size: Any = None, **_: Any) -> Shape:
    if isinstance(size, list):
        return of_size(require, size)
    return require.broadcast(*(shape for shape in (mean, std) if type(shape) is tuple))


def eye(require: Requirements, n: Any, m: Any = None, **_: Any) -> Shape:
    return (length(require, n), length(require, n if m is None else m))


def arange(
    require: Requirements, end: Any, start: Any = 0, step: Any = 1, dtype: torch.dtype | None = None, **_: Any
) -> Shape:
    if any(_is_float(argument) for argument in (start, end, step)):
        if dtype != torch.int64:
            return (_float_range(require, start, end, step, dtype),)
        start, end, step = _whole(require, start, end, step)
    first, last, by = number(start), number(end), number(step)
    if require.at(by)[0] < 0:
        first, last, by = last, first, -by
    if any(number < 0 for number in require.at(by)):
        raise NotKnown
    span = last - first
    require.at_least(by, 1, "the step of a range")
    require.at_least(span, 0, "the length of a range")
    return (divided_up(span, by),)


def _is_float(argument: Any) -> bool:
    return type(argument) is float or (isinstance(argument, SizeExpr) and argument.kind is float)


def _whole(require: Requirements, start: Any, end: Any, step: Any) -> list[Any]:
    """The numbers of a range of integers, rounded after they are compared."""
    if not all(map(_is_number, (start, end, step))):
        raise NotKnown
    require.hold(lambda first, last, by: (last - first) * by >= 0, "the bounds of a range", start, end, step)
    return [apply("trunc", argument) if _is_float(argument) else argument for argument in (start, end, step)]


def _float_range(require: Requirements, start: Any, end: Any, step: Any, dtype: torch.dtype | None) -> Size:
    """torch computes it in doubles, as Python does."""
    numbers = (start, end, step)
    if not (dtype is None or dtype.is_floating_point) or not all(map(_is_number, numbers)):
        raise NotKnown
    span = apply("sub", *(apply("float", argument) for argument in (end, start)))
    count = apply("truediv", span, step)
    at = count.at if isinstance(count, SizeExpr) else (count,)
    # torch refuses a step of 0 and NaN.
    if not all(-(2**31) < number < 2**31 for number in at):
        raise NotKnown
    require.hold(lambda number: number >= 0, "the length of a range", cast("Size", count))
    return cast("Size", apply("ceil", count))


def _is_number(argument: Any) -> bool:
    return type(argument) in (int, float) or (isinstance(argument, SizeExpr) and argument.kind is not bool)


def triangle(*, upper: bool) -> Any:
    """``triu_indices`` and ``tril_indices``: two rows, the indices of the elements of a triangle."""

    def shape(require: Requirements, row: Any, col: Any, offset: Any = 0, **_: Any) -> Shape:
        rows, columns = length(require, row), length(require, col)
        if rows != columns:
            raise NotKnown
        above = _above(require, rows, constant(offset) if upper else offset + 1)
        return (2, above if upper else rows * rows - above)

    return shape


def _above(require: Requirements, size: Size, offset: int) -> Size:
    """The number of elements of a square matrix on or above this diagonal."""
    if offset <= 0:
        return size * size - _triangular(require, size + (offset - 1))
    return _triangular(require, size - offset)


def _triangular(require: Requirements, size: Size) -> Size:
    whole = require.not_negative(size)
    return whole * (whole + 1) // 2


def affine_grid(require: Requirements, theta: Shape, size: Sequence[Any], **_: Any) -> Shape:
    """Sampling coordinates for each pixel of images of this size."""
    sizes = [length(require, argument) for argument in size]
    require.equal(theta[0], sizes[0], "the batches")
    return (sizes[0], *sizes[2:], len(sizes) - 2)


def scalar(require: Requirements, **_: Any) -> Shape:
    return ()
