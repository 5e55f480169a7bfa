"""grid_sample and affine_grid."""

from __future__ import annotations

import itertools

import torch

from onnxport.graph.sizes import SizeExpr, product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.shape.shape import target_shape

# GridSample's names for ATen's numbers of interpolation and padding modes: from opset 20, and from 16 on.
SAMPLING = ("linear", "nearest", "cubic")
SAMPLING_16 = ("bilinear", "nearest", "bicubic")
OUTSIDE = ("zeros", "border", "reflection")


@converter("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    g: Builder, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""  # noqa: E501
    outside, corners = OUTSIDE[padding_mode], int(align_corners)
    if g.opset < (20 if input.rank == 5 else 16) or not g.runs("GridSample", input.dtype):
        return _sampled(g, input, grid, SAMPLING[interpolation_mode], outside, align_corners)
    mode = (SAMPLING if g.opset >= 20 else SAMPLING_16)[interpolation_mode]
    return g.op("GridSample", input, grid, mode=mode, padding_mode=outside, align_corners=corners)


def _sampled(g: Builder, x: Value, grid: Value, mode: str, outside: str, align_corners: bool) -> Value:
    """The pixels around each point, gathered from the flattened image and weighted."""
    g.require(11, "sampling of images")
    assert x.shape is not None and grid.shape is not None
    rank = x.rank - 2
    points = g.op("Reshape", grid, [0, 1, -1, rank])
    lengths = [sizes.scalar(g, size) for size in x.shape[2:]]
    around = []
    for axis, length in enumerate(lengths):
        position = g.op("Gather", points, g.constant(rank - 1 - axis, torch.int64), axis=3)
        around.append(_pixels(g, position, g.cast(length, x.dtype), mode, outside, align_corners))
    flat = g.op("Reshape", x, [0, 0, -1])
    total: Value | None = None
    for pixels in itertools.product(*around):
        index, weight = pixels[0]
        for (inner, factor), length in zip(pixels[1:], lengths[1:], strict=True):
            index = g.op("Add", g.op("Mul", index, length), inner)
            weight = factor if weight is None else weight if factor is None else g.op("Mul", weight, factor)
        index = g.typed(index, torch.int64, (grid.shape[0], 1, product(grid.shape[1:-1])))
        value = g.op("GatherElements", flat, emit.expand(g, index, [*x.shape[:2], index.shape[2]]), axis=2)  # type: ignore[index]
        value = value if weight is None else g.op("Mul", value, weight)
        total = value if total is None else g.op("Add", total, value)
    assert total is not None
    shape = (*x.shape[:2], product(grid.shape[1:-1]))
    return emit.reshape(g, g.typed(total, x.dtype, shape), g.outputs[0].shape)


Pixel = tuple[Value, "Value | None"]


def _pixels(g: Builder, position: Value, length: Value, mode: str, outside: str, align_corners: bool) -> list[Pixel]:
    """The pixels along one axis that a point interpolates, with their weights; None is a weight of 1."""
    last = g.op("Sub", length, 1.0)
    if align_corners:
        position = g.op("Mul", g.op("Add", position, 1.0), g.op("Mul", last, 0.5))
    else:
        position = g.op("Sub", g.op("Mul", g.op("Add", position, 1.0), g.op("Mul", length, 0.5)), 0.5)
    if mode != "cubic":
        position = _inside(g, position, length, outside, align_corners)
    base = g.op("Round" if mode == "nearest" else "Floor", position)
    part = g.op("Sub", position, base)
    weights: dict[int, Value | None] = {0: None}
    if mode == "linear":
        weights = {0: g.op("Sub", 1.0, part), 1: part}
    elif mode == "cubic":
        weights = {offset: _cubic(g, part, offset) for offset in (-1, 0, 1, 2)}
    pixels: list[Pixel] = []
    for offset, weight in weights.items():
        index = g.op("Add", base, float(offset)) if offset else base
        if mode == "cubic":
            index = _inside(g, index, length, outside, align_corners)
        kept = g.op("Min", g.op("Max", index, 0.0), last)
        if outside == "zeros":
            mask = g.cast(g.op("Equal", kept, index), position.dtype)
            weight = mask if weight is None else g.op("Mul", weight, mask)
        pixels.append((g.cast(kept, torch.int64), weight))
    return pixels


def _inside(g: Builder, position: Value, length: Value, outside: str, align_corners: bool) -> Value:
    """Positions outside are moved to the border, or reflected at it as often as needed."""
    if outside == "zeros":
        return position
    last = g.op("Sub", length, 1.0)
    if outside == "reflection":
        low = 0.0 if align_corners else -0.5
        span = g.op("Max", last, 0.5) if align_corners else length
        twice = g.op("Mul", span, 2.0)
        distance = g.op("Abs", g.op("Sub", position, low))
        turned = g.op("Sub", distance, g.op("Mul", g.op("Floor", g.op("Div", distance, twice)), twice))
        position = g.op("Add", g.op("Sub", span, g.op("Abs", g.op("Sub", turned, span))), low)
    return g.op("Min", g.op("Max", position, 0.0), last)


def _cubic(g: Builder, part: Value, offset: int) -> Value:
    """The weight of the pixel at an offset from the one below, a cubic in its distance (a = -0.75)."""
    distance = g.op("Add", part, 1.0) if offset == -1 else part if offset == 0 else g.op("Sub", float(offset), part)
    a, b, c, d = (1.25, -2.25, 0.0, 1.0) if offset in (0, 1) else (-0.75, 3.75, -6.0, 3.0)
    weight = g.op("Add", g.op("Mul", distance, a), b)
    return g.op("Add", g.op("Mul", g.op("Add", g.op("Mul", weight, distance), c), distance), d)


@converter("aten::affine_grid_generator")
def affine_grid_generator(g: Builder, theta: Value, size: list[AnySize], align_corners: bool) -> Value:
    """aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor

    AffineGrid (opset 20) puts the only position of an axis of size 1 at a corner, torch in the middle.
    """
    shape = g.outputs[0].shape
    target = target_shape((shape[0], 1, *shape[1:-1]), size)
    if g.opset >= 20 and not (align_corners and any(isinstance(d, SizeExpr) or d == 1 for d in shape[1:-1])):
        target[1] = size[1]
        return g.op("AffineGrid", theta, sizes.vector(g, target), align_corners=int(align_corners))
    rank = len(shape) - 2
    lines = [_line(g, target[axis + 2], theta.dtype, align_corners) for axis in reversed(range(rank))]
    coordinates = [
        emit.unsqueeze(g, line, [i for i in range(rank) if i != rank - 1 - k]) for k, line in enumerate(lines)
    ]
    full = [*shape[1:-1]]
    spread = [emit.unsqueeze(g, emit.expand(g, position, full), [rank]) for position in coordinates]
    base = g.op("Concat", *spread, axis=rank)
    base = emit.pad(g, base, [0] * (2 * rank + 1) + [1], value=1.0)
    rows = g.op("Reshape", base, [-1, rank + 1])
    grid = g.op("MatMul", rows, emit.transpose(g, theta, [0, 2, 1]))
    points = product(shape[1:-1])
    return emit.reshape(g, g.typed(grid, theta.dtype, (shape[0], points, rank)), shape)


def _line(g: Builder, size: AnySize, dtype: torch.dtype, align_corners: bool) -> Value:
    """Positions from -1 to 1, which are the centres of the outermost pixels, or their edges."""
    known = sizes.known(size)
    if isinstance(known, int):
        line = (
            torch.linspace(-1, 1, known, dtype=torch.float64) if known > 1 else torch.zeros(known, dtype=torch.float64)
        )
        return g.constant((line if align_corners else line * (known - 1) / known).to(dtype))
    count = g.cast(emit.counting(g, size), dtype)
    length = g.cast(sizes.scalar(g, size), dtype)
    doubled = g.op("Sub", g.op("Mul", count, 2.0), g.op("Sub", length, 1.0))
    return g.op("Div", doubled, g.op("Max", g.op("Sub", length, 1.0), 1.0) if align_corners else length)
