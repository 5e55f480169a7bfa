"""Sizes at run time: as tensors, read from a value that has them, or computed the way the model computed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.errors import DynamicAxisError
from onnxport.graph.dims import Dim, Shape, Size, is_static, values
from onnxport.lower.emit import axes
from onnxport.lower.value import AnySize, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder


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
    operator, left, right = size.how or _decompose(g, size)
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
        if isinstance(size, int):
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


class UnknownSize(DynamicAxisError):
    """A size that is no expression of the sizes at hand that can be found."""


def shown(size: Size) -> str:
    return ", ".join(map(str, size.at)) if isinstance(size, Dim) else str(size)


def _decompose(g: Builder, dim: Dim) -> tuple[str, Size, Size]:
    """A size that no value has, as an operation on sizes at hand: a multiple, a part, a product, sum or difference."""
    captures = len(dim.at)
    for base in g.carriers:
        if base.at[0] and dim == base * (dim.at[0] // base.at[0]):
            return "Mul", base, dim.at[0] // base.at[0]
        factor = base.at[0] // dim.at[0] if dim.at[0] else 0
        if factor and dim * factor == base:
            return "Div", base, factor
    for left in g.carriers:
        for right in g.carriers:
            for operator, result in (("Mul", left * right), ("Add", left + right), ("Sub", left - right)):
                if values(result, captures) == dim.at:
                    return operator, left, right
    raise UnknownSize(
        f"{g.where()}: a size that is {shown(dim)} at the sizes tried is not an expression of the dynamic axes that "
        "this version can find; compute it from tensor sizes (x.shape[i]) in the model"
    )
