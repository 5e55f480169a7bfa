"""Convolutions, pooling, resizing and pixel shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from onnxport.graph.shapes.bound import axis_of, each, replaced, tensor
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size, SizeExpr, apply
from onnxport.graph.sizes.shapes import product

# Convolutions


def convolution(
    require: Requirements,
    input: Shape,
    weight: Shape,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    transposed: bool = False,
    output_padding: Any = 0,
    groups: Any = 1,
    **_: Any,
) -> Shape:
    rank = len(weight) - 2
    first = len(input) - rank
    if rank < 1 or first not in (1, 2):
        raise NotKnown
    channels = weight[1] * groups if transposed else weight[0]
    require.equal(input[first - 1], weight[0] if transposed else weight[1] * groups, "the channels")
    strides, dilations = each(stride, rank, 1), each(dilation, rank, 1)
    spans = [d * (kernel - 1) + 1 for d, kernel in zip(dilations, weight[2:], strict=True)]
    spatial = input[first:]
    if padding == "same":
        require.not_empty(spatial, "the input of a convolution")
        return (*input[: first - 1], channels, *spatial)
    pads = [0] * rank if padding == "valid" else each(padding, rank, 0)
    if transposed:
        rows = zip(spatial, strides, pads, spans, each(output_padding, rank, 0), strict=True)
        sizes = [(n - 1) * s - 2 * p + span + m for n, s, p, span, m in rows]
        for size in sizes:
            require.at_least(size, 0, "the result of a convolution")
        if first == 2:
            require = require.where(lambda batch: batch > 0, input[0])
        require.not_empty([*spatial, *sizes], "the input or the result of a convolution")
        return (*input[: first - 1], channels, *sizes)
    rooms = [n + 2 * p - span for n, p, span in zip(spatial, pads, spans, strict=True)]
    for room in rooms:
        require.at_least(room, 0, "the input of a convolution")
    return (*input[: first - 1], channels, *(room // s + 1 for room, s in zip(rooms, strides, strict=True)))


def transposed_convolution(require: Requirements, input: Shape, weight: Shape, **arguments: Any) -> Shape:
    return convolution(require, input, weight, **{**arguments, "transposed": True})


# Pools


def pool(rank: int, results: int = 1) -> Any:
    def shapes(
        require: Requirements,
        self: Shape,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        **_: Any,
    ) -> list[Shape]:
        first = len(self) - rank
        if first not in (1, 2):
            raise NotKnown
        kernels = each(kernel_size, rank)
        strides, pads = each(stride, rank, kernels), each(padding, rank, 0)
        require.not_empty(self[first - 1 :], "the input of a pool")
        rows = zip(self[first:], kernels, strides, pads, each(dilation, rank, 1), strict=True)
        found = [_pooled(require, *row, ceil=ceil_mode) for row in rows]
        return [(*self[:first], *found)] * results

    return shapes


def _pooled(
    require: Requirements, size: Size, kernel: Size, stride: Size, padding: Size, dilation: Size, *, ceil: bool
) -> Size:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil:
        require.at_least(room, 0, "the input of a pool")
        return room // stride + 1
    length = (room + stride - 1) // stride + 1
    # No window starts in the padding at the end.
    beyond = apply("ge", (length - 1) * stride, size + padding)
    length = cast("Size", apply("where", beyond, length - 1, length))
    require.at_least(length, 1, "the input of a pool")
    return length


def adaptive_pool(rank: int, results: int = 1) -> Any:
    def shapes(require: Requirements, self: Shape, output_size: Any, **_: Any) -> list[Shape]:
        first = len(self) - rank
        if first not in (1, 2):
            raise NotKnown
        require.not_empty(self[1 if first == 2 else 0 :], "the input of a pool")
        sizes = each(output_size, rank)
        for size in sizes:
            require.at_least(size, 0)
        return [(*self[:first], *sizes)] * results

    return shapes


def unpool(rank: int) -> Any:
    def shape(require: Requirements, self: Shape, indices: Shape, output_size: Any, **_: Any) -> Shape:
        first = len(self) - rank
        if first not in (1, 2):
            raise NotKnown
        require.same([self, indices])
        require.not_empty(self[1 if first == 2 else 0 :], "the input of a pool")
        return (*self[:first], *each(output_size, rank))

    return shape


def unfolded(
    require: Requirements, self: Shape, kernel_size: Any, dilation: Any, padding: Any, stride: Any, **_: Any
) -> Shape:
    """The windows of images as columns: ``im2col``."""
    if len(self) not in (3, 4):
        raise NotKnown
    require.not_empty(self[-3:], "the images")
    windows = _windows(require, self[-2:], kernel_size, dilation, padding, stride)
    return (*self[:-3], self[-3] * product(each(kernel_size, 2)), product(windows))


def folded(
    require: Requirements,
    self: Shape,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
    **_: Any,
) -> Shape:
    """Images from columns that are their windows: ``col2im``."""
    if len(self) not in (2, 3):
        raise NotKnown
    sizes = each(output_size, 2)
    windows = _windows(require, sizes, kernel_size, dilation, padding, stride)
    require.equal(self[-1], product(windows), "the columns and the windows")
    elements = product(each(kernel_size, 2))
    require.multiple(self[-2], elements, "the size of a column")
    require.not_empty(self[-2:], "the columns")
    return (*self[:-2], self[-2] // elements, *sizes)


def _windows(
    require: Requirements, sizes: Sequence[Size], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> list[Size]:
    options = (each(number, 2) for number in (kernel, dilation, padding, stride))
    found = []
    for size, width, apart, around, step in zip(sizes, *options, strict=True):
        room = size + 2 * around - apart * (width - 1) - 1
        require.at_least(room, 0, "the size of an image")
        found.append(room // step + 1)
    return found


# Resizing


def upsample(require: Requirements, output_size: Any = None, scale_factors: Any = None, **tensors: Any) -> Shape:
    source = tensor(tensors.get("input", tensors.get("self")))
    rank = len(source) - 2
    if output_size is not None:
        sizes = each(output_size, rank)
    elif scale_factors is not None and len(scale_factors) == rank:
        pairs = zip(source[2:], scale_factors, strict=True)
        sizes = [_scaled(size, factor) for size, factor in pairs]
    else:
        raise NotKnown
    require.not_empty([*source[1:], *sizes], "an image")
    return (*source[:2], *sizes)


def _scaled(size: Size, factor: Any) -> Size:
    if type(factor) not in (int, float) and not isinstance(factor, SizeExpr):
        raise NotKnown
    return cast("Size", apply("trunc", apply("mul", size, factor)))


def grid_sampler(require: Requirements, input: Shape, grid: Shape, **_: Any) -> Shape:
    """Pixels at the positions in a grid."""
    rank = len(input) - 2
    if rank not in (2, 3) or len(grid) != len(input):
        raise NotKnown
    require.equal(input[0], grid[0], "the batches")
    require.equal(grid[-1], rank)
    require.not_empty(input[2:], "an image")
    return (*input[:2], *grid[1:-1])


def roi_align(
    require: Requirements, input: Shape, rois: Shape, pooled_height: Any, pooled_width: Any, **_: Any
) -> Shape:
    """A crop of fixed size for each region."""
    if len(input) != 4 or len(rois) != 2:
        raise NotKnown
    require.equal(rois[1], 5)
    return (rois[0], input[1], *each([pooled_height, pooled_width], 2))


def pixel_shuffle(require: Requirements, self: Shape, upscale_factor: int, **_: Any) -> Shape:
    if len(self) < 3:
        raise NotKnown
    *batch, channels, height, width = self
    require.multiple(channels, upscale_factor**2, "the channels")
    return (*batch, channels // upscale_factor**2, height * upscale_factor, width * upscale_factor)


def pixel_unshuffle(require: Requirements, self: Shape, downscale_factor: int, **_: Any) -> Shape:
    if len(self) < 3:
        raise NotKnown
    *batch, channels, height, width = self
    down = downscale_factor
    require.multiple(height, down, "the height")
    require.multiple(width, down, "the width")
    return (*batch, channels * down**2, height // down, width // down)


def channel_shuffle(require: Requirements, self: Shape, groups: int, **_: Any) -> Shape:
    if len(self) < 3:
        raise NotKnown
    require.multiple(self[1], groups, "the channels")
    return self


def glu(require: Requirements, self: Shape, dim: int = -1, **_: Any) -> Shape:
    axis = axis_of(dim, len(self))
    if not self:
        raise NotKnown
    require.multiple(self[axis], 2)
    return replaced(self, axis, self[axis] // 2)
