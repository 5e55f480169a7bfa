"""Emitters that create, slice, pad, reshape and resize: attributes of older opsets are inputs in newer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnxport.graph.sizes import Shape, Size, SizeExpr, is_static, leaves_of, substitute
from onnxport.graph.sizes.bounds import bounds
from onnxport.graph.sizes.expr import AXIS
from onnxport.lower import sizes
from onnxport.lower.emit.axes import squeeze, unsqueeze
from onnxport.lower.emit.selection import cumsum, maximum, minimum
from onnxport.lower.value import AnySize, Operand, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

INT64_MAX = 2**63 - 1
Ints = Sequence[int]


def slice_(
    g: Builder,
    x: Value,
    starts: Sequence[AnySize],
    ends: Sequence[AnySize],
    axes: Ints,
    steps: Sequence[AnySize] | None = None,
) -> Value:
    """Slice has inputs and steps from opset 10; before, constants with step 1. Otherwise a Gather."""
    if steps is not None and all(step == 1 for step in steps):
        steps = None
    if g.opset >= 10:
        inputs = [sizes.vector(g, starts), sizes.vector(g, ends), g.constant(list(axes), torch.int64)]
        return g.op("Slice", x, *inputs, None if steps is None else sizes.vector(g, steps))
    bounds = [sizes.known(bound) for bound in (*starts, *ends)]
    if steps is not None or not all(isinstance(bound, int) for bound in bounds):
        for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(axes), strict=True):
            x = _gathered_slice(g, x, start, end, axis, step)
        return x
    return g.op("Slice", x, starts=bounds[: len(starts)], ends=bounds[len(starts) :], axes=list(axes))


def _gathered_slice(g: Builder, x: Value, start: AnySize, end: AnySize, axis: int, step: AnySize) -> Value:
    """A Gather of the indices from start to end, with positive steps."""
    if x.shape is None or not isinstance(step, int) or step < 1:
        g.require(10, "a slice with computed or negative steps, or of unknown rank")
    assert x.shape is not None
    size = x.shape[axis]
    first, last = sizes.known(start), sizes.known(end)
    if isinstance(size, int) and isinstance(first, int) and isinstance(last, int) and isinstance(step, int):
        indices = g.constant(torch.arange(size)[first:last:step])
    else:
        g.require(9, "a slice with steps or with bounds that are only known at run time")
        indices = range_(g, _within(g, start, size), _within(g, end, size), step, torch.int64)  # type: ignore[arg-type]
    return g.op("Gather", x, indices, axis=axis)


def _within(g: Builder, bound: AnySize, size: Size) -> Operand:
    """A bound as an index from 0 to the size; negative ones count from the end."""
    if bound == 0:
        return 0
    if isinstance(bound, int) and bound == INT64_MAX:
        return sizes.scalar(g, size)
    position, length = sizes.scalar(g, bound), sizes.scalar(g, size)
    from_end = g.op("Mul", g.cast(g.op("Less", position, 0), torch.int64), length)
    return minimum(g, maximum(g, g.op("Add", position, from_end), g.constant(0, torch.int64)), length)


def pad(g: Builder, x: Value, pads: Sequence[AnySize], mode: str = "constant", value: Operand = 0.0) -> Value:
    """``pads`` in ONNX order: all starts, then all ends. An input from opset 11, an attribute before."""
    if all(amount == 0 for amount in pads):
        return x
    fill = g.cast(value, x.dtype) if mode == "constant" and not _is_zero(value) else None
    shape = _padded_shape(x, [sizes.known(amount) for amount in pads])
    if g.opset >= 11:
        return g.typed(g.op("Pad", x, sizes.vector(g, pads), fill, mode=mode), x.dtype, shape)
    if not all(isinstance(amount, int) for amount in pads) or isinstance(value, Value):
        g.require(11, "padding by an amount that is only known at run time")
    filler = float(value) if mode == "constant" else None  # type: ignore[arg-type]
    return g.typed(g.op("Pad", x, pads=list(pads), mode=mode, value=filler), x.dtype, shape)


def _padded_shape(x: Value, pads: Sequence[Size | None]) -> Shape | None:
    if x.shape is None:
        return None
    sizes = zip(x.shape, pads[: x.rank], pads[x.rank :], strict=True)
    shape = [None if before is None or after is None else size + before + after for size, before, after in sizes]
    return None if None in shape else tuple(shape)  # type: ignore[arg-type]


def _is_zero(value: Operand) -> bool:
    return not isinstance(value, Value) and value == 0


def reshape(g: Builder, x: Value, target: Sequence[AnySize]) -> Value:
    """Reshape to a constant shape with 0 and -1 if possible; otherwise the shape is computed."""
    assert x.shape is not None
    wanted = [sizes.known(size) for size in target]
    if wanted == list(x.shape):
        return x
    spelled = sizes.reshape_target(x.shape, target)
    if spelled is None:
        added = _axes_of_one(x.shape, wanted)
        dropped = _axes_of_one(wanted, list(x.shape))
        if added is not None or dropped is not None:
            return unsqueeze(g, x, added) if added is not None else squeeze(g, x, dropped or ())
        # Without allowzero (opset 14) a computed size of 0 would copy the input's dimension.
        meant = g.opset >= 14 and -1 not in wanted and any(map(_may_be_zero, wanted))
        result = g.op("Reshape", x, sizes.vector(g, target), allowzero=1 if meant else None)
    elif spelled.count(0) and is_static(w for w in wanted if w is not None) and None not in wanted and 0 in wanted:
        result = _reshape_to_zero(g, x, [int(w) for w in wanted])  # type: ignore[arg-type]
    else:
        result = g.op("Reshape", x, spelled)
    shape = tuple(size for size in wanted if size is not None and size != -1)
    return g.typed(result, x.dtype, shape) if len(shape) == len(wanted) else result


def _may_be_zero(size: Size | None) -> bool:
    """Whether a size may be 0 even if no axis of an input is."""
    if not isinstance(size, SizeExpr):
        return size is None or size == 0
    axes = {leaf: leaf + 1 for leaf in leaves_of(size) if leaf.op == AXIS}
    return bounds(substitute(size, axes))[0] <= 0


def _axes_of_one(shape: Sequence[Size | None], longer: Sequence[Size | None]) -> list[int] | None:
    """The additional axes of size 1 in the longer shape; None if there are other differences."""
    axes: list[int] = []
    rest = list(shape)
    for axis, size in enumerate(longer):
        if rest and size is not None and size == rest[0]:
            rest.pop(0)
        elif size == 1:
            axes.append(axis)
        else:
            return None
    return None if rest or None in shape else axes


def _reshape_to_zero(g: Builder, x: Value, target: Ints) -> Value:
    """A dimension of 0 copies the input's dimension, unless allowzero (opset 14) is set."""
    if all(size != 0 or (i < x.rank and x.shape is not None and x.shape[i] == 0) for i, size in enumerate(target)):
        return g.op("Reshape", x, list(target))
    g.require(14, "a reshape to a dimension of size 0")
    return g.op("Reshape", x, list(target), allowzero=1)


def expand(g: Builder, x: Value, target: Sequence[AnySize]) -> Value:
    """Expand to a shape, with 1 for dimensions that are already right. Tile before opset 8."""
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
    """Split into parts of given sizes. They are an input from opset 13; before, computed sizes need slices."""
    assert x.shape is not None
    if len(sizes_) == 1:
        return (x,)
    if g.opset >= 13:
        parts = g.op("Split", x, sizes.vector(g, sizes_), outputs=len(sizes_), axis=axis)
    elif all(isinstance(size, int) for size in sizes_):
        parts = g.op("Split", x, outputs=len(sizes_), axis=axis, split=list(sizes_))
    else:
        g.require(11, "a split into parts of sizes that are only known at run time")
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
    """Split into parts of equal size, which need not be known. Their number is an attribute from opset 18."""
    assert x.shape is not None
    results = g.op("Split", x, outputs=parts, axis=axis, num_outputs=parts if g.opset >= 18 else None)
    shape = (*x.shape[:axis], x.shape[axis] // parts, *x.shape[axis + 1 :])
    return tuple(g.typed(part, x.dtype, shape) for part in results)


def filled(g: Builder, target: Sequence[AnySize], value: Operand, dtype: torch.dtype) -> Value:
    """A tensor filled with one value. Static and small ones are constants, others ConstantOfShape (opset 9)."""
    wanted = [sizes.known(size) for size in target]
    shape: Shape | None = tuple(size for size in wanted if size is not None)
    shape = shape if shape is not None and len(shape) == len(wanted) else None
    if isinstance(value, Value):
        number = g.cast(value, dtype)
        return g.typed(expand(g, number if number.ir is not None else g.realise(number), target), dtype, shape)
    if shape == ():
        return g.constant(value, dtype)
    fill = torch.tensor([value], dtype=torch.float64 if isinstance(value, float) else None).to(dtype)
    if g.opset < 9 and shape is not None and is_static(shape):
        return g.constant(fill.expand([int(size) for size in shape if isinstance(size, int)]))
    if g.opset < 9:
        return expand(g, g.constant(fill), target)
    result = g.op("ConstantOfShape", sizes.vector(g, target), value=fill)
    return g.typed(result, dtype, shape)


def range_(g: Builder, start: Operand, end: Operand, step: Operand, dtype: torch.dtype) -> Value:
    """Range, with 0-dim bounds, from opset 11. Before, from 9 on, NonZero of ones."""
    g.require(9, "a range with a length that is only known at run time")
    if g.opset < 11:
        return _range_by_counting(g, start, end, step, dtype)
    if not isinstance(step, Value) and step < 0 and not dtype.is_floating_point:
        # The runtime fuses a Gather by a decreasing Range into a Slice, and reads a limit of -1 as the last element.
        top = g.cast(start, dtype)
        return g.op("Sub", top, range_(g, 0, g.op("Sub", top, g.cast(end, dtype)), -step, dtype))
    return g.op("Range", g.cast(start, dtype), g.cast(end, dtype), g.cast(step, dtype))


def _range_by_counting(g: Builder, start: Operand, end: Operand, step: Operand, dtype: torch.dtype) -> Value:
    """0, step, 2 * step, ..., for as many steps as there are from start to end."""
    first, last, stride = (g.cast(bound, dtype) for bound in (start, end, step))
    from_zero, in_ones = (not isinstance(x, Value) and x == at for x, at in ((start, 0), (step, 1)))
    count = last if from_zero else g.op("Sub", last, first)
    if dtype.is_floating_point or not (from_zero and in_ones):
        steps = g.op("Div", g.cast(count, torch.float64), g.cast(stride, torch.float64))
        count = g.cast(g.op("Max", g.op("Ceil", steps), 0.0), torch.int64)
    ones = g.op("ConstantOfShape", unsqueeze(g, g.cast(count, torch.int64), [0]), value=torch.tensor([1]))
    positions = g.cast(squeeze(g, g.op("NonZero", ones), [0]), dtype)
    positions = positions if in_ones else g.op("Mul", positions, stride)
    return positions if from_zero else g.op("Add", positions, first)


def counting(g: Builder, size: AnySize) -> Value:
    """0, 1, ... size - 1 as int64: a constant for a static size, else Range (opset 11) or, from 9, NonZero."""
    known = sizes.known(size)
    if isinstance(known, int):
        return g.constant(torch.arange(known))
    if g.opset >= 11:
        result = range_(g, 0, sizes.scalar(g, size), 1, torch.int64)
    else:
        ones = g.op("ConstantOfShape", sizes.vector(g, [size]), value=torch.ones(1, dtype=torch.int64))
        result = squeeze(g, g.op("NonZero", ones), [0])
    return g.typed(result, torch.int64, None if known is None else (known,))


def resize(
    g: Builder, x: Value, scales: Sequence[float] | None, sizes_: Sequence[AnySize] | None, **attributes: Any
) -> Value:
    """Resize the axes after the first two, by scales or to sizes. It was Upsample before opset 10.

    Sizes, coordinate modes and cubic exist from 11, the roi is optional from 13, axes exist from 18. Axes are only set
    if the first two sizes would have to be computed: ONNX Runtime does not load a Resize with axes between two
    Transposes, because its optimizer moves it through them.
    """
    assert x.shape is not None
    result: Value
    full = None if scales is None else [1.0, 1.0, *scales]
    if g.opset >= 18 and full is None and sizes_ is not None and not is_static(x.shape[:2]):
        result = g.op("Resize", x, None, None, sizes.vector(g, sizes_), axes=list(range(2, x.rank)), **attributes)
    elif g.opset >= 11:
        empty = g.constant(torch.zeros(0)) if g.opset < 13 else None
        factors = empty if full is None else g.constant(full, torch.float32)
        target = None if full is not None or sizes_ is None else sizes.vector(g, [*x.shape[:2], *sizes_])
        result = g.op("Resize", x, empty, factors, target, **attributes)
    else:
        if full is None:
            g.require(11, "resizing to a size that is only known at run time")
        mode = attributes["mode"]
        if g.opset >= 9:
            result = g.op("Resize" if g.opset == 10 else "Upsample", x, g.constant(full, torch.float32), mode=mode)
        else:
            result = g.op("Upsample", x, scales=full, mode=mode)
    return result
