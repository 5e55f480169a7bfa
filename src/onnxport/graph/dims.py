"""Sizes that are known as numbers, and sizes that are known only as what they were each time.

A model with dynamic axes is captured at several sizes. A dimension that was the same each time is an ``int``; one that
changed is a ``Dim``, which remembers its value at each capture. Two dimensions with equal values at every capture are
the same dimension, and arithmetic on them is arithmetic on the values: identity testing by evaluation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import TypeAlias


class Dim:
    """A size that differs between captures: ``at[k]`` is its value in capture ``k``.

    One that was computed from others knows how: the operator, ONNX's or ``Root``, and its two operands.
    """

    __slots__ = ("at", "how")

    def __init__(self, at: tuple[int, ...], how: tuple[str, Size, Size] | None = None) -> None:
        self.at = at
        self.how = how

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and other.at == self.at

    def __hash__(self) -> int:
        return hash(self.at)

    def __repr__(self) -> str:
        return f"Dim{self.at}"

    def __add__(self, other: Size) -> Size:
        return _combine("Add", self, other)

    def __sub__(self, other: Size) -> Size:
        return _combine("Sub", self, other)

    def __mul__(self, other: Size) -> Size:
        return _combine("Mul", self, other)

    def __floordiv__(self, other: Size) -> Size:
        return _combine("Div", self, other)

    def __mod__(self, other: Size) -> Size:
        return _combine("Mod", self, other)

    def __rsub__(self, other: int) -> Size:
        return _combine("Sub", other, self)

    def __rfloordiv__(self, other: int) -> Size:
        return _combine("Div", other, self)

    def __neg__(self) -> Size:
        return _combine("Sub", 0, self)

    __radd__ = __add__
    __rmul__ = __mul__


Size: TypeAlias = "int | Dim"
Shape: TypeAlias = "tuple[Size, ...]"


def size(values: Iterable[int]) -> Size:
    """The size that had these values: an ``int`` if they are all the same, else a ``Dim``."""
    at = tuple(values)
    return at[0] if at.count(at[0]) == len(at) else Dim(at)


def values(of: Size, captures: int) -> tuple[int, ...]:
    """The value of a size in each of the captures."""
    return of.at if isinstance(of, Dim) else (of,) * captures


def is_static(shape: Iterable[Size]) -> bool:
    return all(isinstance(dimension, int) for dimension in shape)


def static_sizes(shape: Shape | None) -> list[int] | None:
    """The sizes as numbers; None where one of them is free."""
    sizes = [dimension for dimension in shape or () if isinstance(dimension, int)]
    return sizes if shape is not None and len(sizes) == len(shape) else None


def product(sizes: Iterable[Size]) -> Size:
    result: Size = 1
    for factor in sizes:
        result = result * factor
    return result


# The square root, rounded down; its second operand says that it is the square root.
ROOT = "Root"
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.floordiv,
    "Mod": operator.mod,
    "Min": min,
    "Max": max,
    ROOT: lambda number, _: math.isqrt(max(number, 0)),
}


def smaller(left: Size, right: Size) -> Size:
    return _combine("Min", left, right) if isinstance(left, Dim) or isinstance(right, Dim) else min(left, right)


def larger(left: Size, right: Size) -> Size:
    return _combine("Max", left, right) if isinstance(left, Dim) or isinstance(right, Dim) else max(left, right)


def root(of: Size) -> Size:
    """The square root, rounded down."""
    return _combine(ROOT, of, 2) if isinstance(of, Dim) else math.isqrt(max(of, 0))


def _combine(op: str, left: Size, right: Size) -> Size:
    captures = len(left.at if isinstance(left, Dim) else right.at if isinstance(right, Dim) else ())
    result = size(map(OPERATORS[op], values(left, captures), values(right, captures)))
    if isinstance(result, Dim):
        result.how = (op, left, right)
    return result
