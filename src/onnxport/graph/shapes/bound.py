"""Readers of arguments for shape functions: numbers, axes, and a number for each spatial axis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size, SizeExpr


def number(argument: Any) -> Size:
    if type(argument) is not int and not (isinstance(argument, SizeExpr) and argument.kind is int):
        raise NotKnown
    return argument


def length(require: Requirements, argument: Any) -> Size:
    """A number that is a size of the result: torch refuses sizes below 0."""
    size = number(argument)
    require.at_least(size, 0)
    return size


def constant(argument: Any) -> int:
    """A number that is static."""
    if type(argument) is not int:
        raise NotKnown
    return argument


def tensor(argument: Any) -> Shape:
    """The shape of an argument that has to be a tensor."""
    if type(argument) is not tuple:
        raise NotKnown
    return argument


def axis_of(dim: Any, rank: int) -> int:
    """A non-negative axis; a 0-dim tensor is treated as one with one axis."""
    count = max(rank, 1)
    if type(dim) is not int or not -count <= dim < count:
        raise NotKnown
    return dim % count


def axes_of(dims: Any, rank: int) -> list[int]:
    """Non-negative axes, from a list or a single number."""
    return [axis_of(dim, rank) for dim in (dims if isinstance(dims, list) else [dims])]


def each(argument: Any, rank: int, default: Any = None) -> list[Size]:
    """A number for each spatial axis: from a list, a list of one, or one number for all."""
    if argument is None or argument == []:
        argument = default
    numbers = argument if isinstance(argument, list) else [argument]
    if len(numbers) == 1:
        numbers = numbers * rank
    if len(numbers) != rank:
        raise NotKnown
    return [number(size) for size in numbers]


def replaced(shape: Shape, axis: int, *sizes: Size) -> Shape:
    """A shape with one axis replaced by other sizes, or by none."""
    if axis >= len(shape):
        raise NotKnown
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def total(sizes: Iterable[Size]) -> Size:
    result: Size = 0
    for size in sizes:
        result = result + size
    return result


def divided_up(size: Size, by: Size) -> Size:
    """A quotient, rounded up."""
    return (size + (by - 1)) // by
