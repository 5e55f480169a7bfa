"""Sizes that are the same at every point, and those that are not: what shapes are made of."""

from __future__ import annotations

from collections.abc import Iterable

from onnxport.graph.sizes.expr import Shape, Size, SizeExpr


def size(values: Iterable[int]) -> Size:
    """The size that has these values: an ``int`` if they are all the same, else an expression of unknown origin."""
    at = tuple(values)
    return at[0] if at.count(at[0]) == len(at) else SizeExpr(at)


def values(of: Size, points: int) -> tuple[int, ...]:
    """The value of a size at each of the points."""
    return of.at if isinstance(of, SizeExpr) else (of,) * points


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
