"""What shape functions read from arguments: numbers, axes, and a number for each of some axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size, SizeExpr


def number(given: Any) -> Size:
    if type(given) is not int and not (isinstance(given, SizeExpr) and given.kind is int):
        raise NotKnown
    return given


def length(require: Requirements, given: Any) -> Size:
    """A number that is the size of a result: torch makes no tensors with sizes below 0."""
    size = number(given)
    require.at_least(size, 0)
    return size


def constant(given: Any) -> int:
    """A number that does not vary."""
    if type(given) is not int:
        raise NotKnown
    return given


def tensor(given: Any) -> Shape:
    """The shape of an argument that has to be a tensor."""
    if type(given) is not tuple:
        raise NotKnown
    return given


def axis_of(dim: Any, rank: int) -> int:
    """An axis by its number, which may count from the end. A tensor without axes is taken for one with one."""
    count = max(rank, 1)
    if type(dim) is not int or not -count <= dim < count:
        raise NotKnown
    return dim % count


def axes_of(dims: Any, rank: int) -> list[int]:
    """Axes by their numbers, of which one alone is no list."""
    return [axis_of(dim, rank) for dim in (dims if isinstance(dims, list) else [dims])]


def each(given: Any, rank: int, default: Any = None) -> list[Size]:
    """A number for each spatial axis: of a list, of a list of one, or one number for all."""
    if given is None or given == []:
        given = default
    numbers = given if isinstance(given, list) else [given]
    if len(numbers) == 1:
        numbers = numbers * rank
    if len(numbers) != rank:
        raise NotKnown
    return [number(size) for size in numbers]


def replaced(shape: Shape, axis: int, *sizes: Size) -> Shape:
    """A shape with other sizes, or none, in the place of one axis."""
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
