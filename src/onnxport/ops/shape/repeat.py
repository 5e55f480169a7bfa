"""repeat, tile, repeat_interleave, roll, flip and rot90."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.graph.sizes import SizeExpr
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value


@converter("aten::repeat")
def repeat(g: Builder, self: Value, repeats: list[AnySize]) -> Value:
    """aten::repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    return _tiled(g, emit.unsqueeze(g, self, list(range(len(repeats) - self.rank))), repeats)


@converter("aten::tile")
def tile(g: Builder, self: Value, dims: list[AnySize]) -> Value:
    """aten::tile(Tensor self, SymInt[] dims) -> Tensor"""
    repeats = [*([1] * (self.rank - len(dims))), *dims]
    return _tiled(g, emit.unsqueeze(g, self, list(range(len(repeats) - self.rank))), repeats)


def _tiled(g: Builder, x: Value, repeats: Sequence[AnySize]) -> Value:
    if all(count == 1 for count in repeats):
        return x
    return g.op("Tile", x, sizes.vector(g, repeats))


@converter("aten::repeat_interleave.self_int")
def repeat_interleave(
    g: Builder, self: Value, repeats: AnySize, dim: int | None = None, output_size: object = None
) -> Value:
    """aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""  # noqa: E501
    x, axis = _line(g, self, dim)
    assert x.shape is not None
    size = x.shape[axis]
    if isinstance(repeats, int) and isinstance(size, int):
        return g.op("Gather", x, g.constant(torch.arange(size).repeat_interleave(repeats)), axis=axis)
    inner = emit.unsqueeze(g, x, [axis + 1])
    copies = _tiled(g, inner, [1] * (axis + 1) + [repeats] + [1] * (x.rank - axis - 1))
    count = sizes.known(repeats)
    if count is not None:
        g.typed(copies, x.dtype, (*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
    return emit.reshape(g, copies, g.outputs[0].shape)


@converter("aten::repeat_interleave.self_Tensor")
def repeat_interleave_each(
    g: Builder, self: Value, repeats: Value, dim: int | None = None, output_size: object = None
) -> Value:
    """aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""  # noqa: E501
    x, axis = _line(g, self, dim)
    assert x.shape is not None
    size = x.shape[axis]
    if repeats.size is not None or (repeats.data is not None and repeats.data.numel() == 1):
        return repeat_interleave(g, self, repeats if repeats.data is None else int(repeats.data), dim)
    if repeats.data is not None and isinstance(size, int):
        return g.op("Gather", x, g.constant(torch.arange(size).repeat_interleave(repeats.data.cpu())), axis=axis)
    if repeats.shape != (size,):
        repeats = emit.expand(g, repeats, [size])
    return g.op("Gather", x, _repeated_positions(g, repeats), axis=axis)


@converter("aten::repeat_interleave.Tensor")
def repeat_interleave_indices(g: Builder, repeats: Value, output_size: object = None) -> Value:
    """aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor"""
    return _repeated_positions(g, repeats)


def _repeated_positions(g: Builder, repeats: Value) -> Value:
    """Each index as often as its count: the rows of the true elements in a mask with that many per row."""
    counts = g.cast(repeats, torch.int64)
    longest = emit.reduce(g, "ReduceMax", counts, [0], keepdims=False)
    columns = emit.range_(g, 0, longest, 1, torch.int64)
    mask = g.op("Less", columns, emit.unsqueeze(g, counts, [1]))
    return g.op("Gather", g.op("NonZero", mask), g.constant(0, torch.int64), axis=0)


def _line(g: Builder, x: Value, dim: int | None) -> tuple[Value, int]:
    """The tensor and the axis; without an axis, the flattened tensor."""
    if dim is None or x.rank == 0:
        assert x.shape is not None
        return (x if x.rank == 1 else g.op("Reshape", x, [-1])), 0
    return x, dim % x.rank


@converter("aten::roll")
def roll(g: Builder, self: Value, shifts: list[AnySize], dims: list[int] | None = None) -> Value:
    """aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    if not dims:
        line, axis = _line(g, self, None)
        return emit.reshape(g, _rolled(g, line, shifts[0], axis), g.outputs[0].shape)
    x = self
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(g, x, shift, dim % max(self.rank, 1)) if self.rank else x
    return g.typed(x, self.dtype, self.shape)


def _rolled(g: Builder, x: Value, shift: AnySize, axis: int) -> Value:
    """Roll by slices and Concat. If the size is dynamic, a shift may be larger than the size."""
    assert x.shape is not None
    size = x.shape[axis]
    if isinstance(shift, int) and isinstance(size, int):
        if size == 0 or shift % size == 0:
            return x
        return g.op("Gather", x, g.constant((torch.arange(size) - shift) % size), axis=axis)
    start: AnySize
    if isinstance(shift, int) and abs(shift) <= 1:
        start = -shift
    else:
        negative = g.constant(-shift, torch.int64) if isinstance(shift, int) else g.op("Neg", sizes.scalar(g, shift))
        start = g.op("Mod", negative, sizes.scalar(g, size))
    if start == 0:
        return x
    tail = emit.slice_(g, x, [start], [emit.INT64_MAX], [axis])
    head = emit.slice_(g, x, [0], [start], [axis])
    return g.typed(g.op("Concat", tail, head, axis=axis), x.dtype, x.shape)


@converter("aten::flip")
def flip(g: Builder, self: Value, dims: list[int]) -> Value:
    """aten::flip(Tensor self, int[] dims) -> Tensor"""
    return _flipped(g, self, dims)


@converter("aten::fliplr")
def fliplr(g: Builder, self: Value) -> Value:
    """aten::fliplr(Tensor self) -> Tensor"""
    return _flipped(g, self, [1])


@converter("aten::flipud")
def flipud(g: Builder, self: Value) -> Value:
    """aten::flipud(Tensor self) -> Tensor"""
    return _flipped(g, self, [0])


@converter("aten::rot90")
def rot90(g: Builder, self: Value, k: int = 1, dims: Sequence[int] = (0, 1)) -> Value:
    """aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"""
    first, second = (dim % self.rank for dim in dims)
    if k % 4 == 0:
        return self
    if k % 4 == 2:
        return _flipped(g, self, [first, second])
    swap = list(range(self.rank))
    swap[first], swap[second] = second, first
    return _flipped(g, emit.transpose(g, self, swap), [first if k % 4 == 1 else second])


def _flipped(g: Builder, x: Value, dims: Sequence[int]) -> Value:
    """One Slice with negative steps; before opset 10 a Gather for each axis."""
    assert x.shape is not None
    axes = sorted({dim % max(x.rank, 1) for dim in dims}) if x.rank else []
    if not axes:
        return x
    if g.opset >= 10 or any(isinstance(x.shape[axis], SizeExpr) for axis in axes):
        count = len(axes)
        backwards = emit.slice_(g, x, [-1] * count, [-emit.INT64_MAX] * count, axes, [-1] * count)
        return g.typed(backwards, x.dtype, x.shape)
    for axis in axes:
        x = g.op("Gather", x, g.constant(torch.arange(int(x.shape[axis])).flip(0)), axis=axis)  # type: ignore[arg-type]
    return x
