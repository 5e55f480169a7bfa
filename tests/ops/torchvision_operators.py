"""torchvision's operators for tests: the schemas it declares, and plain implementations of what it documents.

torchvision itself is not needed, and where it is loaded its own operators are left alone.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
)


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    kept: list[int] = []
    for place in scores.argsort(descending=True, stable=True).tolist():
        corner = torch.maximum(dets[kept, :2], dets[place, :2])
        opposite = torch.minimum(dets[kept, 2:], dets[place, 2:])
        shared = (opposite - corner).clamp(min=0).prod(1)
        overlap = shared / (areas[kept] + areas[place] - shared)
        if not bool((overlap > iou_threshold).any()):
            kept.append(place)
    return torch.tensor(kept, dtype=torch.int64)


Corner = tuple[Tensor, Tensor]


def between(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """All channels between four pixels. Up to one pixel beyond the border counts as on it; further out is nothing."""
    height, width = image.shape[1:]
    outside = (y < -1) | (y > height) | (x < -1) | (x > width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.long(), x.long()
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    down, along = y - top, x - left
    upper = image[:, top, left] * (1 - along) + image[:, top, right] * along
    lower = image[:, bottom, left] * (1 - along) + image[:, bottom, right] * along
    return (upper * (1 - down) + lower * down).masked_fill(outside, 0)


def bin_mean(image: Tensor, start: Corner, size: Corner, samples: tuple[int, ...]) -> Tensor:
    """The mean over a grid of points in a bin."""
    y, x = (
        begin + (torch.arange(count, dtype=image.dtype) + 0.5) * length / max(count, 1)
        for begin, length, count in zip(start, size, samples, strict=True)
    )
    total = between(image, y[:, None].expand(samples), x.expand(samples)).sum((1, 2))
    return total / max(samples[0] * samples[1], 1)


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    result = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for place, (image, *corners) in enumerate(rois):
        left, top, right, bottom = (corner * spatial_scale - (0.5 if aligned else 0) for corner in corners)
        # Only without the half pixel do regions have a least size: with it a turned one has a negative size.
        high, wide = (length if aligned else length.clamp(min=1) for length in (bottom - top, right - left))
        size = (high / pooled_height, wide / pooled_width)
        adaptive = (max(math.ceil(length), 0) for length in size)
        samples = (sampling_ratio,) * 2 if sampling_ratio > 0 else tuple(adaptive)
        for i in range(pooled_height):
            for j in range(pooled_width):
                start = (top + i * size[0], left + j * size[1])
                result[place, :, i, j] = bin_mean(input[int(image)], start, size, samples)
    return result


def rounded(number: float) -> int:
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


def bounds(start: int, size: float, place: int, last: int) -> slice:
    """The pixels of one bin along one axis."""
    return slice(*(min(max(b + start, 0), last) for b in (math.floor(place * size), math.ceil((place + 1) * size))))


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    result = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for place, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (rounded(corner * spatial_scale) for corner in corners)
        high, wide = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i in range(pooled_height):
            for j in range(pooled_width):
                rows = bounds(top, high / pooled_height, i, input.shape[2])
                columns = bounds(left, wide / pooled_width, j, input.shape[3])
                pixels = input[int(image), :, rows, columns].flatten(1)
                if pixels.shape[1]:
                    result[place, :, i, j] = pixels.amax(1)
    return result, torch.zeros(result.shape, dtype=torch.int32)


def own_channels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of [roi, channel * bins, bin rows, bin columns] for each bin its own channels, and which they are."""
    count, channels, high, wide = x.shape
    own = torch.arange(channels, dtype=torch.int32).reshape(-1, high, wide)
    result = x.new_zeros(count, *own.shape)
    for i in range(high):
        for j in range(wide):
            result[:, :, i, j] = x[:, own[:, i, j].long(), i, j]
    return result, own.expand(count, -1, -1, -1).clone()


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    return own_channels(roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True))


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    result = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for place, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (rounded(corner * spatial_scale) for corner in corners)
        high, wide = max(bottom - top, 1), max(right - left, 1)
        for i in range(pooled_height):
            for j in range(pooled_width):
                rows = bounds(top, high / pooled_height, i, input.shape[2] - 1)
                columns = bounds(left, wide / pooled_width, j, input.shape[3] - 1)
                pixels = input[int(image), :, rows, columns].flatten(1)
                if pixels.shape[1]:
                    result[place, :, i, j] = pixels.mean(1)
    return own_channels(result)


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    batch, channels = input.shape[:2]
    high, wide = weight.shape[2:]
    rows, columns = offset.shape[2:]
    moves = offset.reshape(batch, offset_groups, high, wide, 2, rows, columns)
    factors = mask.reshape(batch, offset_groups, high, wide, rows, columns) if use_mask else None
    padded = torch.nn.functional.pad(input, (1, 1, 1, 1))
    taken = input.new_zeros(batch, channels, high, wide, rows, columns)
    each = channels // offset_groups
    down, along = torch.arange(rows)[:, None] * stride_h - pad_h, torch.arange(columns) * stride_w - pad_w
    for n, o, i, j in itertools.product(range(batch), range(offset_groups), range(high), range(wide)):
        y, x = down + i * dilation_h + moves[n, o, i, j, 0], along + j * dilation_w + moves[n, o, i, j, 1]
        own = slice(o * each, (o + 1) * each)
        part = between(padded[n, own], y + 1, x + 1)
        taken[n, own, i, j] = part if factors is None else part * factors[n, o, i, j]
    grouped = taken.reshape(batch, groups, channels // groups, high, wide, rows, columns)
    kernels = weight.reshape(groups, -1, channels // groups, high, wide)
    result = torch.einsum("ngcijrs,gfcij->ngfrs", grouped, kernels).reshape(batch, -1, rows, columns)
    return result + bias.reshape(-1, 1, 1)


def declare() -> torch.library.Library | None:
    """Register the operators; None where they are there already. They last as long as the library that is returned."""
    if hasattr(torch.ops.torchvision, "nms"):
        return None
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, globals()[name], "CPU")
    return library


LIBRARY = declare()
