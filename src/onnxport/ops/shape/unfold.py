"""Sliding windows: unfold, fold, pixel shuffles."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.graph.sizes import Size, product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.shape.shape import target_shape


@converter("aten::unfold", "aten::unfold_copy")
def unfold(g: Builder, self: Value, dimension: int, size: int, step: int) -> Value:
    """aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    x = emit.unsqueeze(g, self, [0]) if self.rank == 0 else self
    axis = dimension % x.rank
    assert x.shape is not None
    count = g.outputs[0].shape[axis] if self.rank else 1
    if size == step and isinstance(count, int) and count * size == x.shape[axis]:
        windows = emit.reshape(g, x, [*x.shape[:axis], count, size, *x.shape[axis + 1 :]])
    else:
        windows = g.op("Gather", x, windows_along(g, x.shape[axis], count, size, step), axis=axis)
    order = [i for i in range(x.rank + 1) if i != axis + 1]
    result = emit.transpose(g, windows, [*order, axis + 1])
    return result if self.rank else emit.squeeze(g, result, [0])


def windows_along(g: Builder, length: Size, count: Size, size: int, step: int, dilation: int = 1) -> Value:
    """The indices in each window, one window per row."""
    offsets = torch.arange(size) * dilation
    if isinstance(count, int) and isinstance(length, int):
        return g.constant((torch.arange(count) * step)[:, None] + offsets)
    end = g.op("Sub", sizes.scalar(g, length), (size - 1) * dilation)
    starts = emit.range_(g, 0, end, step, torch.int64)
    starts = g.typed(emit.unsqueeze(g, g.typed(starts, torch.int64, (count,)), [1]), torch.int64, (count, 1))
    return g.op("Add", starts, g.constant(offsets))


@converter("aten::im2col")
def im2col(
    g: Builder, self: Value, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Value:
    """aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    x = emit.unsqueeze(g, self, [0]) if self.rank == 3 else self
    pads = [0, 0, *padding]
    x = emit.pad(g, x, [*pads, *pads])
    assert x.shape is not None
    _batch, _channels = x.shape[:2]
    for axis in (0, 1):
        dim = 2 + 2 * axis
        count = _count(x.shape[dim], kernel_size[axis], stride[axis], dilation[axis])
        index = windows_along(g, x.shape[dim], count, kernel_size[axis], stride[axis], dilation[axis])
        x = g.typed(g.op("Gather", x, index, axis=dim), x.dtype, _replaced(x, dim, (count, kernel_size[axis])))
        assert x.shape is not None
    columns = emit.transpose(g, x, [0, 1, 3, 5, 2, 4])
    target = g.outputs[0].shape if self.rank == 4 else (1, *g.outputs[0].shape)
    columns = emit.reshape(g, columns, target)
    return emit.squeeze(g, columns, [0]) if self.rank == 3 else columns


def _count(length: Size, kernel: int, stride: int, dilation: int) -> Size:
    return (length - dilation * (kernel - 1) - 1) // stride + 1


def _replaced(x: Value, dim: int, by: tuple[Size, ...]) -> tuple[Size, ...]:
    assert x.shape is not None
    return (*x.shape[:dim], *by, *x.shape[dim + 1 :])


@converter("aten::col2im")
def col2im(
    g: Builder,
    self: Value,
    output_size: list[AnySize],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Value:
    """aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""  # noqa: E501
    x = emit.unsqueeze(g, self, [0]) if self.rank == 2 else self
    if g.runs("Col2Im", self.dtype):
        image = sizes.vector(g, target_shape(g.outputs[0].shape[-2:], output_size))
        result = g.op("Col2Im", x, image, kernel_size, dilations=dilation, pads=padding * 2, strides=stride)
    else:
        result = _overlapped(g, x, kernel_size, dilation, padding, stride)
    result = g.typed(result, self.dtype, ((1,) if self.rank == 2 else ()) + g.outputs[0].shape)
    return emit.squeeze(g, result, [0]) if self.rank == 2 else result


def _overlapped(
    g: Builder, x: Value, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Value:
    """Overlapping windows summed, by a product with a matrix of 0 and 1 along each axis."""
    assert x.shape is not None
    height, width = g.outputs[0].shape[-2:]
    if not isinstance(height, int) or not isinstance(width, int):
        g.require(18, "folding into an image of dynamic size")
        g.unsupported(f"ONNX Runtime cannot fold {x.dtype} into an image of dynamic size")
    channels = g.outputs[0].shape[-3]
    rows, columns = (
        _placement(size, *settings)
        for size, *settings in zip((height, width), kernel, dilation, padding, stride, strict=True)
    )
    (kernel_rows, count_rows), (kernel_columns, count_columns) = rows.shape[1:], columns.shape[1:]
    split = [x.shape[0], channels, kernel_rows, kernel_columns, count_rows, count_columns]
    patches = emit.transpose(g, emit.reshape(g, x, split), [0, 1, 2, 4, 3, 5])
    merged = [x.shape[0], channels, kernel_rows * count_rows, kernel_columns * count_columns]
    patches = emit.reshape(g, patches, merged)
    left = g.constant(rows.flatten(1).to(x.dtype))
    right = g.constant(columns.flatten(1).T.contiguous().to(x.dtype))
    return g.op("MatMul", g.op("MatMul", left, patches), right)


def _placement(size: int, kernel: int, dilation: int, padding: int, stride: int) -> torch.Tensor:
    """1 where an element of a window is at a position: (position, element, window)."""
    count = _count(size + 2 * padding, kernel, stride, dilation)
    assert isinstance(count, int)
    targets = (torch.arange(kernel) * dilation)[:, None] + torch.arange(count) * stride - padding
    return (torch.arange(size)[:, None, None] == targets).to(torch.float32)


@converter("aten::pixel_shuffle")
def pixel_shuffle(g: Builder, self: Value, upscale_factor: int) -> Value:
    """aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    factor, shape = upscale_factor, self.shape
    assert shape is not None
    if self.rank == 4 and g.opset >= 11 and g.runs("DepthToSpace", self.dtype):
        return g.op("DepthToSpace", self, blocksize=factor, mode="CRD")
    if self.rank >= 3 and g.runs("DepthToSpace", self.dtype):
        planes = g.typed(_planes(g, self, factor * factor), self.dtype)
        return _batches(g, g.op("DepthToSpace", planes, blocksize=factor))
    batch, (channels, height, width) = shape[:-3], shape[-3:]
    rank = len(batch)
    parts = emit.reshape(g, self, [*batch, channels // factor**2, factor, factor, height, width])
    order = [*range(rank), *(rank + i for i in (0, 3, 1, 4, 2))]
    return emit.reshape(g, emit.transpose(g, parts, order), g.outputs[0].shape)


@converter("aten::pixel_unshuffle")
def pixel_unshuffle(g: Builder, self: Value, downscale_factor: int) -> Value:
    """aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    factor, shape = downscale_factor, self.shape
    assert shape is not None
    if g.runs("SpaceToDepth", self.dtype):
        return _batches(g, g.op("SpaceToDepth", _planes(g, self, 1), blocksize=factor))
    batch, (channels, height, width) = shape[:-3], shape[-3:]
    rank = len(batch)
    parts = emit.reshape(g, self, [*batch, channels, height // factor, factor, width // factor, factor])
    order = [*range(rank), *(rank + i for i in (0, 2, 4, 1, 3))]
    return emit.reshape(g, emit.transpose(g, parts, order), g.outputs[0].shape)


def _planes(g: Builder, x: Value, channels: int) -> Value:
    """Batch and channels reshaped to images with this many channels each, so that their order is torch's."""
    assert x.shape is not None
    if x.rank == 4 and x.shape[1] == channels:
        return x
    shape = (product(x.shape[:-2]) // channels, channels, *x.shape[-2:])
    if x.rank == 4:
        return g.typed(g.op("Reshape", x, [-1, channels, 0, 0]), x.dtype, shape)
    return emit.reshape(g, x, shape)


def _batches(g: Builder, planes: Value) -> Value:
    """Reshaped back to the batch and channels of the result."""
    shape = g.outputs[0].shape
    assert planes.shape is not None
    if planes.shape == shape:
        return planes
    if len(shape) == 4 and isinstance(shape[1], int) and shape[1]:
        return g.typed(g.op("Reshape", planes, [-1, shape[1], 0, 0]), planes.dtype, shape)
    return emit.reshape(g, planes, shape)


@converter("aten::channel_shuffle", "aten::native_channel_shuffle")
def channel_shuffle(g: Builder, self: Value, groups: int) -> Value:
    """aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    assert self.shape is not None
    channels = self.shape[1]
    if not isinstance(channels, int):
        g.unsupported("a dynamic number of channels")
    return g.op("Gather", self, g.constant(torch.arange(channels).view(groups, -1).T.reshape(-1)), axis=1)
