"""ONNX operators whose form changed between opsets: each has one emitter, which knows the target opset.

Converters call these and are written once. Where an operator appeared later than opset 7 and simpler ones say the
same, the older spelling stands beside the newer one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnxport.graph.dims import Shape, Size, is_static
from onnxport.lower.value import AnySize, Operand, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

INT64_MAX = 2**63 - 1
Ints = Sequence[int]


def unsqueeze(g: Builder, x: Value, axes: Ints) -> Value:
    if not axes:
        return x
    return g.op("Unsqueeze", x, list(axes)) if g.opset >= 13 else g.op("Unsqueeze", x, axes=list(axes))


def squeeze(g: Builder, x: Value, axes: Ints) -> Value:
    if not axes:
        return x
    return g.op("Squeeze", x, list(axes)) if g.opset >= 13 else g.op("Squeeze", x, axes=list(axes))


def reduce(g: Builder, op: str, x: Value, axes: Ints | None, keepdims: bool) -> Value:
    """ReduceSum took its axes as an input from opset 13, the others from 18. ``axes=None`` reduces all."""
    if axes is not None and not axes:
        return x
    keep = int(keepdims)
    if axes is None:
        return g.op(op, x, keepdims=keep)
    if g.opset >= (13 if op == "ReduceSum" else 18):
        return g.op(op, x, list(axes), keepdims=keep)
    return g.op(op, x, axes=list(axes), keepdims=keep)


def transpose(g: Builder, x: Value, perm: Ints) -> Value:
    return x if list(perm) == list(range(len(perm))) else g.op("Transpose", x, perm=list(perm))


def shape(g: Builder, x: Value, start: int, end: int) -> Value:
    """A stretch of a shape, as a 1-D tensor."""
    if start == 0 and x.shape is not None and end == len(x.shape):
        return g.op("Shape", x)
    if g.opset >= 15:
        return g.op("Shape", x, start=start, end=end)
    return slice_(g, g.op("Shape", x), [start], [end], [0])


def slice_(
    g: Builder,
    x: Value,
    starts: Sequence[AnySize],
    ends: Sequence[AnySize],
    axes: Ints,
    steps: Sequence[AnySize] | None = None,
) -> Value:
    """Slice takes inputs, and steps, from opset 10; before that constants with step 1."""
    from onnxport.lower import sizes  # noqa: PLC0415

    if steps is not None and all(step == 1 for step in steps):
        steps = None
    if g.opset >= 10:
        inputs = [sizes.vector(g, starts), sizes.vector(g, ends), g.constant(list(axes), torch.int64)]
        return g.op("Slice", x, *inputs, None if steps is None else sizes.vector(g, steps))
    bounds = [sizes.known(bound) for bound in (*starts, *ends)]
    if steps is not None or not all(isinstance(bound, int) for bound in bounds):
        g.require(10, "a slice with steps or with bounds that are computed")
    return g.op("Slice", x, starts=bounds[: len(starts)], ends=bounds[len(starts) :], axes=list(axes))


def pad(g: Builder, x: Value, pads: Sequence[AnySize], mode: str = "constant", value: Operand = 0.0) -> Value:
    """``pads`` in ONNX order: all begins, then all ends. From opset 11 an input, before that an attribute."""
    from onnxport.lower import sizes  # noqa: PLC0415

    if all(amount == 0 for amount in pads):
        return x
    fill = g.cast(value, x.dtype) if mode == "constant" and not _is_zero(value) else None
    shape = _padded_shape(x, [sizes.known(amount) for amount in pads])
    if g.opset >= 11:
        return g.typed(g.op("Pad", x, sizes.vector(g, pads), fill, mode=mode), x.dtype, shape)
    if not all(isinstance(amount, int) for amount in pads) or isinstance(value, Value):
        g.require(11, "padding by an amount that is computed")
    filler = float(value) if mode == "constant" else None  # type: ignore[arg-type]
    return g.typed(g.op("Pad", x, pads=list(pads), mode=mode, value=filler), x.dtype, shape)


def clip(g: Builder, x: Value, low: Operand | None, high: Operand | None) -> Value:
    """Bounds are inputs from opset 11, float attributes before.

    A bound left out means the largest finite number to the runtime, which would change infinities: Max or Min say it.
    """
    numbers = not isinstance(low, Value) and not isinstance(high, Value)
    if g.opset >= 12 and numbers and low is not None and high is not None:
        return g.op("Clip", x, g.cast(low, x.dtype), g.cast(high, x.dtype))
    if g.opset < 12 and numbers and x.is_float and (low is not None or high is not None) and x.dtype != torch.float64:
        return _clip_by_numbers(g, x, float("-inf" if low is None else low), float("inf" if high is None else high))  # type: ignore[arg-type]
    if low is not None:
        x = maximum(g, x, g.cast(low, x.dtype))
    return x if high is None else minimum(g, x, g.cast(high, x.dtype))


def _clip_by_numbers(g: Builder, x: Value, low: float, high: float) -> Value:
    if g.opset >= 11:
        return g.op("Clip", x, low, high)
    return g.op("Clip", x, min=min(low, high), max=high)


def maximum(g: Builder, x: Value, y: Value) -> Value:
    """Max broadcasts from opset 8 and takes integers from 12."""
    return _extremum(g, "Max", "Greater", x, y)


def minimum(g: Builder, x: Value, y: Value) -> Value:
    return _extremum(g, "Min", "Less", x, y)


def _extremum(g: Builder, op: str, comparison: str, x: Value, y: Value) -> Value:
    if x.dtype == torch.bool:
        return g.op("Or" if op == "Max" else "And", x, y)
    if x.is_float and g.opset < 8 and x.shape != y.shape:
        g.require(8, f"{op} of tensors that are broadcast")
    if g.opset >= 12 or x.is_float:
        return g.op(op, x, y)
    return g.op("Where", g.op(comparison, x, y), x, y)


def reshape(g: Builder, x: Value, target: Sequence[AnySize]) -> Value:
    """Reshape with constants where 0 and -1 can say it; the shape is computed only where they cannot."""
    from onnxport.lower import sizes  # noqa: PLC0415

    assert x.shape is not None
    wanted = [sizes.known(size) for size in target]
    if wanted == list(x.shape):
        return x
    spelled = sizes.reshape_target(x.shape, target)
    if spelled is None:
        result = g.op("Reshape", x, sizes.vector(g, target))
    elif spelled.count(0) and is_static(w for w in wanted if w is not None) and None not in wanted and 0 in wanted:
        result = _reshape_to_zero(g, x, [int(w) for w in wanted])  # type: ignore[arg-type]
    else:
        result = g.op("Reshape", x, spelled)
    shape = tuple(size for size in wanted if size is not None)
    return g.typed(result, x.dtype, shape) if len(shape) == len(wanted) else result


def _reshape_to_zero(g: Builder, x: Value, target: Ints) -> Value:
    """A dimension of 0 means "as before" unless allowzero (opset 14) says that it is meant."""
    if all(size != 0 or (i < x.rank and x.shape is not None and x.shape[i] == 0) for i, size in enumerate(target)):
        return g.op("Reshape", x, list(target))
    g.require(14, "a reshape to a dimension of size 0")
    return g.op("Reshape", x, list(target), allowzero=1)


def expand(g: Builder, x: Value, target: Sequence[AnySize]) -> Value:
    """Broadcast to a shape; dimensions that are already right are given as 1. Before opset 8 by repeating."""
    from onnxport.lower import sizes  # noqa: PLC0415

    assert x.shape is not None
    wanted = [sizes.known(size) for size in target]
    if wanted == list(x.shape):
        return x
    lead = len(target) - x.rank
    kept = [size is not None and i >= lead and size == x.shape[i - lead] for i, size in enumerate(wanted)]
    spelled = [1 if keep else size for keep, size in zip(kept, target, strict=True)]
    if g.opset >= 8:
        result = g.op("Expand", x, sizes.vector(g, spelled))
    else:
        result = g.op("Tile", unsqueeze(g, x, list(range(lead))), sizes.vector(g, spelled))
    shape = tuple(size for size in wanted if size is not None)
    return g.typed(result, x.dtype, shape) if len(shape) == len(wanted) else result


def split(g: Builder, x: Value, sizes_: Sequence[AnySize], axis: int) -> tuple[Value, ...]:
    """Split into parts of given sizes. They are an input from opset 13; before that, computed ones need slices."""
    from onnxport.lower import sizes  # noqa: PLC0415

    assert x.shape is not None
    if len(sizes_) == 1:
        return (x,)
    if g.opset >= 13:
        parts = g.op("Split", x, sizes.vector(g, sizes_), outputs=len(sizes_), axis=axis)
    elif all(isinstance(size, int) for size in sizes_):
        parts = g.op("Split", x, outputs=len(sizes_), axis=axis, split=list(sizes_))
    else:
        g.require(11, "a split into parts of computed sizes")
        ends = cumsum(g, sizes.vector(g, sizes_), 0)
        inner = [g.op("Gather", ends, g.constant(i, torch.int64)) for i in range(len(sizes_) - 1)]
        bounds: list[AnySize] = [0, *inner, INT64_MAX]
        parts = tuple(slice_(g, x, [bounds[i]], [bounds[i + 1]], [axis]) for i in range(len(sizes_)))
    for part, size in zip(parts, sizes_, strict=True):
        known = sizes.known(size)
        if known is not None:
            g.typed(part, x.dtype, (*x.shape[:axis], known, *x.shape[axis + 1 :]))
    return parts


def split_evenly(g: Builder, x: Value, parts: int, axis: int) -> tuple[Value, ...]:
    """Split into parts of the same size, which need not be known. Their number is an attribute from opset 18."""
    assert x.shape is not None
    results = g.op("Split", x, outputs=parts, axis=axis, num_outputs=parts if g.opset >= 18 else None)
    shape = (*x.shape[:axis], x.shape[axis] // parts, *x.shape[axis + 1 :])
    return tuple(g.typed(part, x.dtype, shape) for part in results)


def softmax(g: Builder, x: Value, axis: int, op: str = "Softmax") -> Value:
    """Before opset 13 all axes from the given one on are taken together, so the axis must be the last."""
    axis %= max(x.rank, 1)
    if g.opset >= 13 or axis == x.rank - 1:
        return g.op(op, x, axis=axis)
    swap = list(range(x.rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return g.op("Transpose", g.op(op, g.op("Transpose", x, perm=swap), axis=x.rank - 1), perm=swap)


def topk(
    g: Builder, x: Value, k: AnySize, axis: int, largest: bool = True, sorted_: bool = True
) -> tuple[Value, Value]:
    """k is an input from opset 10; the smallest can be asked for from 11."""
    from onnxport.lower import sizes  # noqa: PLC0415

    if g.opset >= 11:
        values, indices = g.op(
            "TopK", x, sizes.vector(g, [k]), outputs=2, axis=axis, largest=int(largest), sorted=int(sorted_)
        )
    else:
        source = x if largest else g.op("Neg", x)
        if g.opset >= 10:
            values, indices = g.op("TopK", source, sizes.vector(g, [k]), outputs=2, axis=axis)
        else:
            if not isinstance(k, int):
                g.require(10, "a k that is computed")
            values, indices = g.op("TopK", source, outputs=2, axis=axis, k=k)
        values = values if largest else g.op("Neg", values)
    shape = _with(x, axis, sizes.known(k))
    return g.typed(values, x.dtype, shape), g.typed(indices, torch.int64, shape)


def where(g: Builder, condition: Value, x: Operand, y: Operand, dtype: torch.dtype | None = None) -> Value:
    left, right = g.promoted(x, y, dtype=dtype)
    return g.op("Where", g.cast(condition, torch.bool), left, right)


def equal(g: Builder, x: Value, y: Operand) -> Value:
    """Equal takes floats from opset 11. Before that "neither less nor greater", and no NaN: x + y is a number."""
    if g.opset >= 11 or not x.is_float:
        return g.op("Equal", x, y)
    same = g.op("Not", g.op("Or", g.op("Less", x, y), g.op("Greater", x, y)))
    return g.op("And", same, _is_number(g, g.op("Add", x, y) if isinstance(y, Value) else x))


def is_nan(g: Builder, x: Value) -> Value:
    """IsNaN is there from opset 9."""
    return g.op("IsNaN", x) if g.opset >= 9 else g.op("Not", _is_number(g, x))


def _is_number(g: Builder, x: Value) -> Value:
    """Every number is below one or above zero; NaN is neither."""
    return g.op("Or", g.op("Less", x, 1), g.op("Greater", x, 0))


def greater_or_equal(g: Builder, x: Value, y: Operand) -> Value:
    """An operator of its own from opset 12. Before that "greater or equal", which is false for NaN as it must be."""
    if g.opset >= 12:
        return g.op("GreaterOrEqual", x, y)
    if not x.is_float:
        return g.op("Not", g.op("Less", x, y))
    return g.op("Or", g.op("Greater", x, y), equal(g, x, y))


def less_or_equal(g: Builder, x: Value, y: Operand) -> Value:
    if g.opset >= 12:
        return g.op("LessOrEqual", x, y)
    if not x.is_float:
        return g.op("Not", g.op("Greater", x, y))
    return g.op("Or", g.op("Less", x, y), equal(g, x, y))


def round_(g: Builder, x: Value) -> Value:
    """Round, with ties to even, is there from opset 11. Before, ties go up."""
    return g.op("Round", x) if g.opset >= 11 else g.op("Floor", g.op("Add", x, 0.5))


def scatter_elements(g: Builder, x: Value, index: Value, source: Value, axis: int, reduction: str = "none") -> Value:
    """Scatter became ScatterElements in opset 11; add and mul came in 16, max and min in 18."""
    if reduction != "none":
        g.require(18 if reduction in ("max", "min") else 16, f"a scatter that reduces by {reduction}")
        wide, updates = _reducible(g, x), _reducible(g, source)
        return g.cast(g.op("ScatterElements", wide, index, updates, axis=axis, reduction=reduction), x.dtype)
    return g.op("ScatterElements" if g.opset >= 11 else "Scatter", x, index, source, axis=axis)


def scatter_nd(g: Builder, x: Value, index: Value, source: Value, reduction: str = "none") -> Value:
    """ScatterND is there from opset 11; add and mul came in 16, max and min in 18."""
    if reduction == "none":
        return g.op("ScatterND", x, index, source)
    g.require(18 if reduction in ("max", "min") else 16, f"a scatter that reduces by {reduction}")
    return g.cast(g.op("ScatterND", _reducible(g, x), index, _reducible(g, source), reduction=reduction), x.dtype)


def _reducible(g: Builder, x: Value) -> Value:
    """ONNX Runtime's scatters reduce all numbers but those of 16-bit floating point."""
    return g.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def dropout(g: Builder, x: Value, ratio: float) -> tuple[Value, Value]:
    """Dropout that drops, and its mask. Before the training flag of opset 12 the operator passes its input on."""
    if g.opset >= 12:
        flag = g.constant(True, torch.bool)
        values, mask = g.op("Dropout", x, g.constant(ratio, torch.float32), flag, outputs=2)
        return g.typed(values, x.dtype, x.shape), g.typed(mask, torch.bool, x.shape)
    drawn = g.op("RandomUniformLike", x, dtype=torch.float32)
    mask = g.op("Less", g.typed(drawn, torch.float32, x.shape), 1 - ratio)
    return g.op("Div", g.op("Mul", x, g.cast(mask, x.dtype)), 1 - ratio), mask


def filled(g: Builder, target: Sequence[AnySize], value: Operand, dtype: torch.dtype) -> Value:
    """A tensor of one value. Static and small ones are constants, others are made at run time (opset 9)."""
    from onnxport.lower import sizes  # noqa: PLC0415

    wanted = [sizes.known(size) for size in target]
    shape: Shape | None = tuple(size for size in wanted if size is not None)
    shape = shape if shape is not None and len(shape) == len(wanted) else None
    if isinstance(value, Value):
        return g.typed(expand(g, g.cast(value, dtype), target), dtype, shape)
    if shape == ():
        return g.constant(value, dtype)
    fill = torch.tensor([value]).to(dtype)
    if g.opset < 9 and shape is not None and is_static(shape):
        return g.constant(fill.expand([int(size) for size in shape if isinstance(size, int)]))
    if g.opset < 9:
        return expand(g, g.constant(fill), target)
    result = g.op("ConstantOfShape", sizes.vector(g, target), value=fill)
    return g.typed(result, dtype, shape)


def range_(g: Builder, start: Operand, end: Operand, step: Operand, dtype: torch.dtype) -> Value:
    """Range is there from opset 11; the bounds are 0-dim tensors. Before, from 0 in steps of 1, the places of ones."""
    if g.opset in (9, 10) and dtype == torch.int64 and (start, step) == (0, 1):
        ones = g.op("ConstantOfShape", unsqueeze(g, g.cast(end, dtype), [0]), value=torch.tensor([1]))
        return squeeze(g, g.op("NonZero", ones), [0])
    g.require(9 if (start, step) == (0, 1) else 11, "a range whose length is only known at run time")
    return g.op("Range", g.cast(start, dtype), g.cast(end, dtype), g.cast(step, dtype))


def resize(
    g: Builder, x: Value, scales: Sequence[float] | None, sizes_: Sequence[AnySize] | None, **attributes: Any
) -> Value:
    """Resize the axes after the first two, by scales or to sizes. It was Upsample before opset 10.

    Sizes, coordinate modes and cubic can be said from 11, the roi is optional from 13, axes can be named from 18.
    """
    from onnxport.lower import sizes  # noqa: PLC0415

    assert x.shape is not None
    result: Value
    full = None if scales is None else [1.0, 1.0, *scales]
    if g.opset >= 18:
        factors = None if scales is None else g.constant(list(scales), torch.float32)
        target = None if scales is not None or sizes_ is None else sizes.vector(g, sizes_)
        result = g.op("Resize", x, None, factors, target, axes=list(range(2, x.rank)), **attributes)
    elif g.opset >= 11:
        empty = g.constant(torch.zeros(0)) if g.opset < 13 else None
        factors = empty if full is None else g.constant(full, torch.float32)
        target = None if full is not None or sizes_ is None else sizes.vector(g, [*x.shape[:2], *sizes_])
        result = g.op("Resize", x, empty, factors, target, **attributes)
    else:
        if full is None:
            g.require(11, "resizing to a size that is computed")
        mode = attributes["mode"]
        if g.opset >= 9:
            result = g.op("Resize" if g.opset == 10 else "Upsample", x, g.constant(full, torch.float32), mode=mode)
        else:
            result = g.op("Upsample", x, scales=full, mode=mode)
    return result


def counting(g: Builder, size: AnySize) -> Value:
    """0, 1, ... size - 1 as int64: a constant where the size is static, else Range (opset 11) or, from 9, NonZero."""
    from onnxport.lower import sizes  # noqa: PLC0415

    known = sizes.known(size)
    if isinstance(known, int):
        return g.constant(torch.arange(known))
    if g.opset >= 11:
        result = range_(g, 0, sizes.scalar(g, size), 1, torch.int64)
    else:
        ones = g.op("ConstantOfShape", sizes.vector(g, [size]), value=torch.ones(1, dtype=torch.int64))
        result = squeeze(g, g.op("NonZero", ones), [0])
    return g.typed(result, torch.int64, None if known is None else (known,))


def gather_elements(g: Builder, x: Value, index: Value, axis: int) -> Value:
    """GatherElements is there from opset 11; before that static shapes can be gathered from a flat view."""
    if g.opset >= 11:
        return g.op("GatherElements", x, index, axis=axis)
    assert x.shape is not None and index.shape is not None
    if not is_static(x.shape) or not is_static(index.shape):
        g.require(11, "gathering single elements where sizes are only known at run time")
    steps = [math.prod(int(size) for size in x.shape[i + 1 :]) for i in range(x.rank)]  # type: ignore[arg-type]
    offset = torch.zeros([], dtype=torch.int64)
    for i, size in enumerate(index.shape):
        if i != axis:
            places = torch.arange(size) * steps[i]
            offset = offset + places.reshape([-1 if j == i else 1 for j in range(x.rank)])
    place = g.op("Add", g.op("Mul", g.cast(index, torch.int64), steps[axis]), g.constant(offset))
    return g.op("Gather", g.op("Reshape", x, [-1]), place, axis=0)


def cumsum(g: Builder, x: Value, axis: int, *, exclusive: bool = False, reverse: bool = False) -> Value:
    return g.op("CumSum", x, g.constant(axis, torch.int64), exclusive=int(exclusive), reverse=int(reverse))


def modulo(g: Builder, x: Value, divisor: Operand) -> Value:
    """The remainder of integers that are not negative. Mod is there from opset 10."""
    if g.opset >= 10:
        return g.op("Mod", x, divisor)
    return g.op("Sub", x, g.op("Mul", g.op("Div", x, divisor), divisor))


def _is_zero(value: Operand) -> bool:
    return not isinstance(value, Value) and value == 0


def _padded_shape(x: Value, pads: Sequence[Size | None]) -> Shape | None:
    if x.shape is None:
        return None
    sizes = zip(x.shape, pads[: x.rank], pads[x.rank :], strict=True)
    shape = [None if before is None or after is None else size + before + after for size, before, after in sizes]
    return None if None in shape else tuple(shape)  # type: ignore[arg-type]


def _with(x: Value, axis: int, size: object) -> Shape | None:
    if x.shape is None or size is None:
        return None
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])  # type: ignore[return-value]
