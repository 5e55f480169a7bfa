"""Sizes at run time: as tensors, read from a value that has them, or computed the way the model computed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.errors import DynamicAxisError
from onnxport.graph.dims import ROOT, Dim, Shape, Size, is_static
from onnxport.graph.solve import solve, solve_float
from onnxport.lower.emit import axes
from onnxport.lower.value import AnySize, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

# How many sizes a number is tried as an expression of: the axes, and the first that come along.
MOST_BASES = 8


def known(size: AnySize) -> Size | None:
    """The size as a number or dimension; None for one that depends on data."""
    return size.size if isinstance(size, Value) else size


def scalar(g: Builder, size: AnySize) -> Value:
    """The size as a 0-dim int64 tensor."""
    if isinstance(size, int):
        return g.constant(size, torch.int64)
    if isinstance(size, Value):
        return g.cast(g.realise(size), torch.int64)
    carrier = g.carriers.get(size)
    if carrier is not None:
        value, axis = carrier
        return g.op("Gather", g.op("Shape", value), g.constant(axis, torch.int64), axis=0)
    how = expression(g, size)
    if how is None:
        return scalar(g, solved(g, size))
    operator, left, right = how
    if operator == ROOT:
        of = scalar(g, left)
        if left not in g.context.graph.axes:  # a difference, which may be negative
            of = g.op("Max", of, 0)
        # Exact: sizes have far less than the 53 bits of a double, and the cast rounds down.
        return g.cast(g.op("Sqrt", g.cast(of, torch.float64)), torch.int64)
    return g.op(operator, scalar(g, left), scalar(g, right))


def vector(g: Builder, sizes: Sequence[AnySize]) -> Value:
    """Several sizes as one 1-D int64 tensor."""
    known_sizes = [known(size) for size in sizes]
    if all(isinstance(size, int) for size in known_sizes):
        return g.constant(known_sizes, torch.int64)
    parts: list[Value] = []
    start = 0
    while start < len(sizes):
        part, start = _next_part(g, sizes, known_sizes, start)
        parts.append(part)
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=0)


def _next_part(
    g: Builder, sizes: Sequence[AnySize], known_sizes: Sequence[Size | None], start: int
) -> tuple[Value, int]:
    """The longest run of sizes from ``start`` that is one constant or one stretch of a value's shape."""
    end = start + 1
    first = known_sizes[start]
    if isinstance(first, int):
        while end < len(sizes) and isinstance(known_sizes[end], int):
            end += 1
        return g.constant(known_sizes[start:end], torch.int64), end
    carrier = g.carriers.get(first) if first is not None else None
    if carrier is None:
        size = sizes[start]
        return axes.unsqueeze(g, scalar(g, size), [0]), end
    value, axis = carrier
    shape = value.shape or ()
    while end < len(sizes) and axis + end - start < len(shape) and known_sizes[end] == shape[axis + end - start]:
        end += 1
    return axes.shape(g, value, axis, axis + end - start), end


def shape_vector(g: Builder, value: Value) -> Value:
    """The whole shape of a value as a 1-D tensor; a constant where it is static."""
    assert value.shape is not None
    if is_static(value.shape):
        return g.constant(list(value.shape), torch.int64)
    return g.op("Shape", value)


def reshape_target(source: Shape, target: Sequence[AnySize]) -> list[int] | None:
    """The target shape with 0 for "as before" and one -1 for "the rest", if that says it; None if it does not."""
    sizes = [known(size) for size in target]
    spelled: list[int | None] = []
    for index, size in enumerate(sizes):
        if isinstance(size, int) and size != -1:
            spelled.append(size)
        elif size is not None and index < len(source) and source[index] == size:
            spelled.append(0)
        else:
            spelled.append(None)
    if spelled.count(None) > 1:
        return None
    has_zero_size = any(size == 0 for size in sizes)
    if has_zero_size and not all(isinstance(size, int) for size in sizes):
        return None
    return [-1 if size is None else size for size in spelled]


def expression(g: Builder, size: Dim) -> tuple[str, Size, Size] | None:
    """How a size is computed from others, as far as that is known."""
    # One that knows how it was made may be a part of an expression for a number that was equal to it in all captures.
    known_as = size if size.how is not None else g.context.graph.expressions.get(size, size)
    if known_as is None:
        raise UnknownSize(f"{g.where()}: a size that is {shown(g, size.at)} follows from the axes in no known way")
    return known_as.how if isinstance(known_as, Dim) else None


class UnknownSize(DynamicAxisError):
    """A size that is no expression of the sizes at hand that can be found."""


def shown(g: Builder, numbers: Sequence[object]) -> str:
    """Each number with the sizes of the dynamic axes at which it was seen."""
    axes = g.context.graph.axes.items()
    places = [", ".join(f"{label}={dim.at[capture]}" for dim, label in axes) for capture in range(len(numbers))]
    pairs = zip(numbers, places, strict=True)
    return "; ".join(f"{number} at {place}" if place else f"{number}" for number, place in pairs)


def solved(g: Builder, dim: Dim) -> Size:
    """A size that no value has, as an expression of those that values have: the declared axes before others."""
    found = solve(dim, _bases(g))
    if found is None:
        raise UnknownSize(
            f"{g.where()}: a size that is {shown(g, dim.at)} is no expression of the dynamic axes that could be found; "
            "compute it from tensor sizes (x.shape[i]) in the model"
        )
    return found


def solved_float(g: Builder, numbers: Sequence[float]) -> Value:
    """A number that Python computed from a size, in double precision."""
    found = solve_float(numbers, _bases(g))
    if found is None or tuple(numbers) in g.context.graph.unknown:
        raise UnknownSize(f"{g.where()}: a number that is {shown(g, numbers)}")
    base = g.cast(scalar(g, found.base), torch.float64)
    if found.divisor != 1:
        base = g.op("Div", base, g.cast(scalar(g, found.divisor), torch.float64))
    for step in {"Identity": (), "ReciprocalSqrt": ("Sqrt", "Reciprocal")}.get(found.function, (found.function,)):
        base = g.op(step, base)
    base = base if found.factor == 1 else g.op("Mul", base, found.factor)
    return g.op("Add", base, found.offset) if found.offset else base


def _bases(g: Builder) -> list[Dim]:
    axes = [axis for axis in g.context.graph.axes if axis in g.carriers]
    return [*axes, *(dim for dim in g.carriers if dim not in axes)][:MOST_BASES]
