"""Helpers for sizes in shapes."""

from __future__ import annotations

from collections.abc import Iterable

from onnxport.graph.sizes.expr import Shape, Size, SizeExpr


def size(values: Iterable[int]) -> Size:
    """The size with these values at the points: an ``int`` if they are equal, else an expression of unknown origin."""
    at = tuple(values)
    return at[0] if at.count(at[0]) == len(at) else SizeExpr(at)


def values(of: Size, points: int) -> tuple[int, ...]:
    """The value of a size at each of the points."""
    return of.at if isinstance(of, SizeExpr) else (of,) * points


def is_static(shape: Iterable[Size]) -> bool:
    return all(isinstance(dimension, int) for dimension in shape)


def static_sizes(shape: Shape | None) -> list[int] | None:
    """The sizes as numbers; None if one of them is dynamic."""
    sizes = [dimension for dimension in shape or () if isinstance(dimension, int)]
    return sizes if shape is not None and len(sizes) == len(shape) else None


def product(sizes: Iterable[Size]) -> Size:
    result: Size = 1
    for factor in sizes:
        result = result * factor
    return result
