"""Fractional max pooling: windows at random positions, from random samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value


@converter("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(
    g: Builder, self: Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Value
) -> tuple[Value, Value]:
    """aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)

    Along each axis the pixels of all windows are gathered; then each window is a block with a maximum.
    """  # noqa: E501
    assert self.shape is not None
    spatial = len(kernel_size)
    x = self if self.rank == spatial + 2 else emit.unsqueeze(g, self, [0])
    lead, lengths = (x.shape or ())[:2], (x.shape or ())[2:]
    pixels = []
    for axis, (length, window, count) in enumerate(zip(lengths, kernel_size, output_size, strict=True)):
        # Samples of planes are in the order width, height; those of volumes in the order of the axes.
        column = axis if spatial == 3 else 1 - axis
        sample = g.op("Gather", g.cast(random_samples, x.dtype), g.constant([column], torch.int64), axis=2)
        starts = _starts(g, sample, length, window, count)
        own = emit.unsqueeze(g, g.typed(starts, torch.int64, (*lead, count)), [3])
        within = g.op("Add", own, g.constant(torch.arange(window)))
        pixels.append(emit.reshape(g, within, [*lead, count * window]))
    gathered, positions = x, _numbered(g, lengths)
    for axis, own in enumerate(pixels):
        others = [2 + i for i in range(spatial) if i != axis]
        index = emit.unsqueeze(g, own, others)
        target = [*(gathered.shape or ())]
        target[2 + axis] = output_size[axis] * kernel_size[axis]
        spread = emit.expand(g, index, target)
        gathered = g.op("GatherElements", gathered, spread, axis=2 + axis)
        positions = g.op(
            "GatherElements", emit.expand(g, positions, _but(target, 2 + axis, lengths[axis])), spread, axis=2 + axis
        )
    return _largest(g, gathered, positions, kernel_size, output_size)


def _but(shape: Sequence[AnySize], axis: int, size: AnySize) -> list[AnySize]:
    return [*shape[:axis], size, *shape[axis + 1 :]]


def _numbered(g: Builder, lengths: Sequence[AnySize]) -> Value:
    """The flat index of each pixel in its plane."""
    count = product(lengths)  # type: ignore[arg-type]
    return emit.reshape(g, emit.counting(g, count), [1, 1, *lengths])


def _starts(g: Builder, sample: Value, length: AnySize, window: int, count: int) -> Value:
    """The starts of the windows: at equal distances up to rounding, the last window at the end."""
    last = g.op("Sub", sizes.scalar(g, length), window)
    if count == 1:
        return g.op("Add", g.cast(g.op("Mul", sample, 0.0), torch.int64), last)
    step = g.op("Div", g.cast(last, sample.dtype), float(count - 1))
    numbers = g.constant(torch.arange(count), sample.dtype)
    moved = g.cast(g.op("Mul", g.op("Add", numbers, sample), step), torch.int64)
    first = g.cast(g.op("Mul", sample, step), torch.int64)
    return g.op("Where", g.constant(torch.arange(count) < count - 1), g.op("Sub", moved, first), last)


def _largest(
    g: Builder, gathered: Value, positions: Value, kernel: Sequence[int], count: Sequence[int]
) -> tuple[Value, Value]:
    """The maximum of each block, and the index of the first maximum."""
    spatial = len(kernel)
    shape = (gathered.shape or ())[:2]
    blocks = [size for pair in zip(count, kernel, strict=True) for size in pair]
    order = [0, 1, *range(2, 2 + 2 * spatial, 2), *range(3, 3 + 2 * spatial, 2)]
    parted = []
    for value in (gathered, positions):
        split = emit.reshape(g, value, [*shape, *blocks])
        parted.append(emit.reshape(g, emit.transpose(g, split, order), [*shape, *count, product(kernel)]))
    best = g.op("ArgMax", parted[0], axis=2 + spatial, keepdims=1)
    found = [g.op("GatherElements", part, best, axis=2 + spatial) for part in parted]
    return (
        emit.reshape(g, found[0], g.outputs[0].shape),
        emit.reshape(g, found[1], g.outputs[1].shape),
    )
