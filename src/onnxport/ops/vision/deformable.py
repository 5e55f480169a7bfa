"""torchvision's deformable convolution."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Shape
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value

FIRST_DEFORM_CONV = 19


@dataclass(frozen=True)
class Windows:
    """The settings of the convolution, and its groups of channels and of offsets."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    offset_groups: int


@converter("torchvision::deform_conv2d")
def deform_conv2d(
    g: Builder,
    input: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Value:
    """torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"""  # noqa: E501
    _, _, height, width = weight.shape or ()
    if not isinstance(height, int) or not isinstance(width, int):
        g.unsupported("a deformable convolution with a kernel of dynamic size")
    windows = Windows(
        (height, width), (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups, offset_groups
    )
    factors = mask if use_mask else None
    if g.opset < FIRST_DEFORM_CONV:
        return _composed(g, input, weight, offset, factors, bias, windows)
    return g.op(
        "DeformConv",
        input,
        weight,
        offset,
        bias,
        factors,
        dilations=list(windows.dilation),
        group=groups,
        kernel_shape=list(windows.kernel),
        offset_group=offset_groups,
        pads=[pad_h, pad_w, pad_h, pad_w],
        strides=list(windows.stride),
    )


def _composed(
    g: Builder, x: Value, weight: Value, offset: Value, mask: Value | None, bias: Value, windows: Windows
) -> Value:
    """Gather the pixels for each kernel element, and multiply them with the kernel as a matrix."""
    g.require(11, "a deformable convolution")
    batch, features, high, wide = g.outputs[0].shape
    channels = _static(g, (x.shape or ())[1])
    taps, groups = windows.kernel[0] * windows.kernel[1], windows.offset_groups
    shape = (batch, groups, taps, 2, high, wide)
    both = emit.reshape(g, offset, shape)
    sampled = _sampled(g, x, _points(g, both, shape, windows), windows)
    if mask is not None:
        sampled = g.op("Mul", sampled, emit.reshape(g, mask, [batch, groups, 1, taps, high * wide]))
    each = _static(g, channels // windows.groups)
    columns = emit.reshape(g, sampled, [batch, windows.groups, each * taps, high * wide])
    kernels = emit.reshape(g, weight, [windows.groups, _static(g, features) // windows.groups, each * taps])
    result = emit.reshape(g, g.op("MatMul", kernels, columns), g.outputs[0].shape)
    return g.op("Add", result, emit.unsqueeze(g, bias, [1, 2]))


def _static(g: Builder, size: object) -> int:
    if not isinstance(size, int):
        g.unsupported("a deformable convolution with a dynamic number of channels")
    return size


def _points(g: Builder, offsets: Value, shape: Shape, windows: Windows) -> list[Value]:
    """The positions of the kernel elements along each axis: [batch, offset group, 1, element, point]."""
    batch, groups, taps, _, high, wide = shape
    points = []
    for axis, length in enumerate((high, wide)):
        own = torch.arange(windows.kernel[axis]) * windows.dilation[axis] - windows.padding[axis]
        grid = own.repeat_interleave(windows.kernel[1]) if axis == 0 else own.repeat(windows.kernel[0])
        steps = g.op("Mul", emit.counting(g, length), windows.stride[axis])
        base = g.op("Add", emit.unsqueeze(g, steps, [1] if axis == 0 else [0]), g.constant(grid.reshape(-1, 1, 1)))
        moved = g.op("Gather", offsets, g.constant(axis, torch.int64), axis=3)
        point = g.op("Add", moved, g.cast(base, offsets.dtype))
        points.append(emit.reshape(g, g.typed(point, offsets.dtype, (batch, groups, taps, high, wide)),
                                   [batch, groups, 1, taps, high * wide]))  # fmt: skip
    return points


def _sampled(g: Builder, x: Value, points: list[Value], windows: Windows) -> Value:
    """The image at points between its pixels, 0 outside: [batch, offset group, channel, element, point]."""
    assert x.shape is not None and points[0].shape is not None
    batch, channels, height, width = x.shape
    each = _static(g, channels) // windows.offset_groups
    flat = emit.reshape(g, x, [batch, windows.offset_groups, each, height * width])
    lengths = [sizes.scalar(g, size) for size in (height, width)]
    lows = [g.op("Floor", point) for point in points]
    parts = [g.op("Sub", point, low) for point, low in zip(points, lows, strict=True)]
    count, total = points[0].shape[3], points[0].shape[4]
    target = [batch, windows.offset_groups, each, count * total]
    values = []
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        index, weight = _corner(g, lows, parts, lengths, corner)
        flat_index = emit.reshape(g, g.typed(index, torch.int64, points[0].shape), [*target[:2], 1, target[3]])
        taken = g.op("GatherElements", flat, emit.expand(g, flat_index, target), axis=3)
        pixels = emit.reshape(g, g.typed(taken, x.dtype, tuple(target)), [*target[:3], count, total])
        values.append(g.op("Mul", pixels, weight))
    return g.op("Sum", *values)


def _corner(
    g: Builder, lows: list[Value], parts: list[Value], lengths: list[Value], corner: tuple[int, int]
) -> tuple[Value, Value]:
    """One of the four pixels around each point: its index in the flattened image, and its weight, 0 outside."""
    taps, weights = [], []
    for low, part, length, upper in zip(lows, parts, lengths, corner, strict=True):
        pixel = g.cast(g.op("Add", low, float(upper)), torch.int64)
        inside = g.op("And", emit.greater_or_equal(g, pixel, 0), g.op("Less", pixel, length))
        share = part if upper else g.op("Sub", g.constant(1.0, part.dtype), part)
        weights.append(emit.where(g, inside, share, 0.0, part.dtype))
        taps.append(g.op("Where", inside, pixel, g.constant(0, torch.int64)))
    return g.op("Add", g.op("Mul", taps[0], lengths[1]), taps[1]), g.op("Mul", *weights)
