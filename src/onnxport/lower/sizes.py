"""Sizes at run time: read from the shape of a value, or computed as the model computes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.errors import DynamicAxisError
from onnxport.graph.sizes import Operand, Shape, Size, SizeExpr, is_static, leaves_of
from onnxport.graph.sizes.canonical import canonical, form_of
from onnxport.graph.sizes.expr import NUMBER_OF, UNKNOWN, in_order, parts
from onnxport.lower.emit import axes
from onnxport.lower.size_operators import DTYPES, cost_of, emit, may_be_zero, not_zero
from onnxport.lower.value import AnySize, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

INT64_MAX = 2**63 - 1
# The number of nodes to read a size from a value.
READING = 2


def known(size: AnySize) -> Size | None:
    """The size as a number or expression; None if it is data-dependent."""
    return size.size if isinstance(size, Value) else size


def scalar(g: Builder, size: AnySize | float) -> Value:
    """The size as a 0-dim int64 tensor; floats and bools as float64 and bool."""
    if isinstance(size, Value):
        return g.cast(g.realise(size), torch.int64)
    if isinstance(size, SizeExpr):
        _check_readable(g, size)
        size = _cheaper(g, size)
    return _computed(g, size) if isinstance(size, SizeExpr) else _constant(g, size)


def _computed(g: Builder, size: SizeExpr) -> Value:
    """Add the nodes that compute an expression, each part of it once."""
    order = list(in_order(size, lambda of: _parts(g, of)))
    has_choice = any(part.op == "where" for part in order)
    made: dict[int, Value] = {}
    for part in order:
        carrier = _carrier(g, part)
        if carrier is not None:
            value, axis = carrier
            made[id(part)] = g.op("Gather", g.op("Shape", value), g.constant(axis, torch.int64), axis=0)
        elif part.op == NUMBER_OF:
            made[id(part)] = g.cast(g.realise(g.context.number(part)), DTYPES[part.kind])
        else:
            operands = [made[id(of)] if isinstance(of, SizeExpr) else _constant(g, of) for of in part.operands]
            if has_choice and part.op in ("floordiv", "mod") and part.kind is int and may_be_zero(part.operands[1]):
                operands[1] = not_zero(g, operands[1])
            made[id(part)] = emit(g, part, operands)
    return made[id(size)]


def _constant(g: Builder, number: float) -> Value:
    if _is_too_large(number):
        raise UnknownSize(f"{g.where()}: {number}, from which a size is computed, does not fit into 64 bits")
    return g.constant(number, DTYPES[type(number)])


def _is_too_large(number: object) -> bool:
    return isinstance(number, int) and abs(number) > INT64_MAX


def _carrier(g: Builder, size: SizeExpr) -> tuple[Value, int] | None:
    """The value and the axis that a size can be read from."""
    carrier = g.carriers.get(size) if size.kind is int else None
    if carrier is None or size.is_leaf:
        return carrier
    value, axis = carrier
    return carrier if value.shape is not None and _is_same(value.shape[axis], size) else None


def _is_same(carried: Size, size: SizeExpr) -> bool:
    """Whether sizes that are equal at the evaluation points are known to be equal everywhere; if not, one is computed.

    If it is unknown how a size was computed, only the points count.
    """
    if carried is size or form_of(carried).key == form_of(size).key:
        return True
    return any(leaf.op == UNKNOWN for expr in (carried, size) for leaf in leaves_of(expr))


def _parts(g: Builder, size: SizeExpr) -> Sequence[SizeExpr]:
    """The operands that a size is computed from: none if a value has it."""
    return () if _carrier(g, size) is not None else parts(size)


def _check_readable(g: Builder, size: SizeExpr) -> None:
    """Raise `UnknownSize` unless each leaf of an expression is the size of a value, or a number of this block."""
    for leaf in in_order(size, lambda of: _parts(g, of)):
        if leaf.is_leaf and not _is_readable(g, leaf):
            raise UnknownSize(
                f"{g.where()}: a size that is {shown(g, leaf.at)} cannot be expressed by the dynamic axes; "
                "compute it from tensor sizes (x.shape[i]) in the model"
            )


def _is_readable(g: Builder, leaf: SizeExpr) -> bool:
    return _carrier(g, leaf) is not None or (leaf.op == NUMBER_OF and leaf.operands[0] in g.context.numbers)


def _cheaper(g: Builder, size: SizeExpr) -> Operand:
    """The expression as it was computed, or its canonical form if that needs fewer nodes."""
    if not any(map(parts, _parts(g, size))):
        return size
    other = canonical(size)
    return other if _cost(g, other) < _cost(g, size) else size


def _cost(g: Builder, size: Operand) -> float:
    """About how many nodes compute an expression; infinite where a number does not fit into 64 bits, or nothing has a
    leaf."""
    if not isinstance(size, SizeExpr):
        return math.inf if _is_too_large(size) else 0
    cost: float = 0
    read: set[SizeExpr] = set()
    for part in in_order(size, lambda of: _parts(g, of)):
        if part.is_leaf or _carrier(g, part) is not None:
            if part.is_leaf and not _is_readable(g, part):
                return math.inf
            cost += READING if part not in read else 0
            read.add(part)
        else:
            cost += math.inf if any(map(_is_too_large, part.operands)) else cost_of(g.opset, part)
    return cost


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
    """The longest run of sizes from ``start`` that is one constant or a part of one value's shape."""
    end = start + 1
    first = known_sizes[start]
    if isinstance(first, int):
        while end < len(sizes) and isinstance(known_sizes[end], int):
            end += 1
        return g.constant(known_sizes[start:end], torch.int64), end
    carrier = _carrier(g, first) if first is not None else None
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
    """The target shape with 0 for copied dimensions and one -1, if that is possible; else None."""
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


class UnknownSize(DynamicAxisError):
    """A size that no value has, and that is not an expression of such sizes."""


def shown(g: Builder, numbers: Sequence[object]) -> str:
    """Each number with the sizes of the dynamic axes at its point."""
    axes = g.context.graph.axes.items()
    points = [", ".join(f"{label}={dim.at[capture]}" for dim, label in axes) for capture in range(len(numbers))]
    pairs = zip(numbers, points, strict=True)
    return "; ".join(f"{number} at {point}" if point else f"{number}" for number, point in pairs)
