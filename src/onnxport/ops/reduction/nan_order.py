"""Maxima, minima and sorting: ONNX's plain operator, or with ``exact_nan`` torch's order of NaN.

In torch NaN is greater than infinity, and is both the maximum and the minimum of elements with a NaN. ONNX does not
define NaN in ReduceMax, ArgMax, TopK and similar operators, and the runtime's result depends on its kernels. torch's
order takes several nodes, which accelerators do not fuse: they are added on request, and only where a NaN can occur.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.value import AnySize, Value
from onnxport.lower.value_ranges import fits_32_bits, may_be_nan

# Wider types with distinct values for every number of a narrower one, for its infinity, and for a larger infinity.
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}


def is_exact(g: Builder, x: Value) -> bool:
    """Whether NaN has to be ordered as in torch, and x may have one."""
    if not may_be_nan(x):
        return False
    if not g.context.exact_nan and g.origin is not None:
        g.context.nan_as_in_runtime.add(g.origin)
    return g.context.exact_nan


def any_nan(g: Builder, x: Value, axes: Sequence[int] | None, keepdims: bool) -> Value:
    """A sum of squares is NaN exactly where an element is: infinities of one sign add up to infinity."""
    return emit.is_nan(g, emit.reduce(g, "ReduceSumSquare", x, axes, keepdims))


def extreme(g: Builder, x: Value, axes: Sequence[int] | None, keepdims: bool, *, largest: bool) -> Value:
    """The maximum or minimum; NaN if there is one. ``axes=None`` reduces all."""
    if g.opset >= 11 and x.rank > 0 and not fits_32_bits(x):
        return _extreme_of_long_integers(g, x, axes, keepdims, largest)
    if x.dtype == torch.bfloat16:
        # Widen once for both operators.
        return g.cast(extreme(g, g.cast(x, torch.float32), axes, keepdims, largest=largest), x.dtype)
    plain = emit.reduce(g, "ReduceMax" if largest else "ReduceMin", x, axes, keepdims)
    if x.rank == 0 or not is_exact(g, x) or not (g.opset >= 9 or g.runs("Max", x.dtype)):
        return plain
    if g.opset < 9:
        # No element exceeds the sum of all absolute values, and Max and Min propagate NaN.
        beyond = emit.reduce(g, "ReduceL1", x, axes, keepdims)
        return emit.maximum(g, plain, g.op("Neg", beyond)) if largest else emit.minimum(g, plain, beyond)
    squares = emit.reduce(g, "ReduceSumSquare", x, axes, keepdims)
    return g.op("Where", g.op("IsNaN", squares), squares, plain)


def _extreme_of_long_integers(g: Builder, x: Value, axes: Sequence[int] | None, keepdims: bool, largest: bool) -> Value:
    """The extreme of 64-bit integers by TopK: ReduceMax and ReduceMin get some of them wrong, as Max does."""
    assert x.shape is not None
    if axes is None and x.rank > 1:
        flat = emit.reshape(g, x, [product(x.shape)])
        return emit.reshape(g, emit.topk(g, flat, 1, 0, largest)[0], [1] * x.rank if keepdims else [])
    reduced = range(x.rank) if axes is None else axes
    for axis in reduced:
        x = emit.topk(g, x, 1, axis, largest)[0]
    return x if keepdims else emit.squeeze(g, x, list(reduced))


def index_of_extreme(g: Builder, x: Value, axis: int, keepdims: bool, *, largest: bool) -> Value:
    """The index of the maximum or minimum: the first of several, and of the first NaN if there is one."""
    op, keep = "ArgMax" if largest else "ArgMin", int(keepdims)
    if not is_exact(g, x):
        return g.op(op, x, axis=axis, keepdims=keep)
    if g.opset >= 9 and x.dtype in WIDER:
        return g.op(op, _key(g, x, nan_above=largest), axis=axis, keepdims=keep)
    found = any_nan(g, x, [axis], keepdims)
    first = g.op("ArgMax", g.cast(emit.is_nan(g, x), torch.int32), axis=axis, keepdims=keep)
    index = g.op(op, x, axis=axis, keepdims=keep)
    if g.opset >= 9:
        return g.op("Where", found, first, index)
    return g.op("Add", index, g.op("Mul", g.cast(found, torch.int64), g.op("Sub", first, index)))


def extreme_and_place(g: Builder, x: Value, axis: int, keepdims: bool, *, largest: bool) -> tuple[Value, Value]:
    """The maximum or minimum and its index; if both are used, the value is gathered at the index."""
    both = all(output in g.context.read for output in g.outputs)
    if both and g.opset >= 11 and not fits_32_bits(x):
        found = emit.topk(g, x, 1, axis, largest)
        return found if keepdims else (emit.squeeze(g, found[0], [axis]), emit.squeeze(g, found[1], [axis]))
    if g.opset < 11 or not is_exact(g, x) or not both:
        value = extreme(g, x, [axis], keepdims, largest=largest)
        return value, index_of_extreme(g, x, axis, keepdims, largest=largest)
    index = index_of_extreme(g, x, axis, keepdims=True, largest=largest)
    value = emit.gather_elements(g, x, index, axis)
    return (value, index) if keepdims else (emit.squeeze(g, value, [axis]), emit.squeeze(g, index, [axis]))


def topk(
    g: Builder, x: Value, k: AnySize, axis: int, largest: bool = True, sorted_: bool = True
) -> tuple[Value, Value]:
    """The k largest or smallest elements and their indices. Equal elements keep their order.

    Opsets 7 and 8 have no Where, so NaN is ordered by the runtime there.
    """
    if g.opset < 9 or not is_exact(g, x):
        return emit.topk(g, x, k, axis, largest, sorted_)
    return topk_with_nan_above(g, x, k, axis, largest, sorted_)


def topk_with_nan_above(
    g: Builder, x: Value, k: AnySize, axis: int, largest: bool = True, sorted_: bool = True
) -> tuple[Value, Value]:
    """TopK in torch's order, also without ``exact_nan``."""
    if x.dtype not in WIDER:
        return _topk_in_two_steps(g, x, k, axis, largest, sorted_)
    key = _key(g, x, nan_above=True)
    found, indices = emit.topk(g, key, k, axis, largest, sorted_)
    if g.opset >= 11:
        return emit.gather_elements(g, x, indices, axis), indices
    is_nan = g.op("Greater", found, torch.finfo(key.dtype).max)
    return g.op("Where", is_nan, g.constant(float("nan"), x.dtype), g.cast(found, x.dtype)), indices


def _key(g: Builder, x: Value, *, nan_above: bool) -> Value:
    """The elements in a wider type, with infinity as a finite number, and NaN as infinity (or minus infinity)."""
    wide = WIDER[x.dtype]
    limit, beyond = (torch.finfo(wide).max, float("inf")) if nan_above else (torch.finfo(wide).min, float("-inf"))
    number = g.op("Min" if nan_above else "Max", g.cast(x, wide), limit)
    return g.op("Where", emit.is_nan(g, x), g.constant(beyond, wide), number)


def _topk_in_two_steps(
    g: Builder, x: Value, k: AnySize, axis: int, largest: bool, sorted_: bool
) -> tuple[Value, Value]:
    """For the widest type: sort with NaN as infinity, then by a stable sort separate numbers from NaN."""
    assert x.shape is not None
    nan = emit.is_nan(g, x)
    numbers = g.op("Where", nan, g.constant(float("inf"), x.dtype), x)
    order = emit.topk(g, numbers, x.shape[axis], axis, largest)[1]
    nan_in_order = emit.gather_elements(g, g.cast(nan, torch.float32), order, axis)
    chosen = emit.topk(g, nan_in_order, k, axis, largest, sorted_)[1]
    indices = emit.gather_elements(g, order, chosen, axis)
    return emit.gather_elements(g, x, indices, axis), indices
