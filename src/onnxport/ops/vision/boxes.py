"""torchvision's operators for boxes and regions of interest, without torchvision itself."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import Shape
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.nn.pooling import wants_indices

FIRST_ALIGNED = 16


@converter("torchvision::nms")
def nms(g: Builder, dets: Value, scores: Value, iou_threshold: float) -> Value:
    """torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor

    NonMaxSuppression accepts the corners in any order, and returns image, class and index for each box. In torchvision
    a box with its second corner before the first overlaps nothing, like one without an area.
    """
    corners = g.cast(dets, torch.float32)
    first = g.op("Gather", corners, g.constant([0, 1, 0, 1], torch.int64), axis=1)
    boxes = emit.unsqueeze(g, g.op("Max", corners, first), [0])
    ranked = emit.unsqueeze(g, g.cast(scores, torch.float32), [0, 1])
    every = sizes.vector(g, [(dets.shape or ())[0]])
    threshold = g.constant([iou_threshold], torch.float32)
    kept = g.op("NonMaxSuppression", boxes, ranked, every, threshold)
    return g.op("Gather", kept, g.constant(2, torch.int64), axis=1)


@converter("torchvision::roi_align")
def roi_align(
    g: Builder,
    input: Value,
    rois: Value,
    spatial_scale: float | Value,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"""  # noqa: E501
    return _aligned(g, input, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned)


def _aligned(
    g: Builder,
    x: Value,
    rois: Value,
    scale: float | Value,
    pooled: tuple[int, int],
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    if aligned:
        g.require(FIRST_ALIGNED, "aligned regions of interest")
    mode = ("half_pixel" if aligned else "output_half_pixel") if g.opset >= FIRST_ALIGNED else None
    images, boxes = _images_and_boxes(g, g.cast(rois, x.dtype))
    if isinstance(scale, Value):
        boxes, scale = g.op("Mul", boxes, g.cast(scale, x.dtype)), 1.0
    elif x.dtype == torch.float64 and scale != 1:
        # The attribute has single precision.
        boxes, scale = g.op("Mul", boxes, scale), 1.0
    result = g.op(
        "RoiAlign",
        x,
        boxes,
        images,
        output_height=pooled[0],
        output_width=pooled[1],
        sampling_ratio=max(sampling_ratio, 0),
        spatial_scale=float(scale),
        coordinate_transformation_mode=mode,
    )
    return g.typed(result, x.dtype, ((rois.shape or ())[0], (x.shape or ())[1], *pooled))


def _images_and_boxes(g: Builder, rois: Value) -> tuple[Value, Value]:
    """The first column, the index of the image, and the corners."""
    image = g.op("Gather", rois, g.constant(0, torch.int64), axis=1)
    return g.cast(image, torch.int64), emit.slice_(g, rois, [1], [5], [1])


@converter("torchvision::roi_pool")
def roi_pool(
    g: Builder, input: Value, rois: Value, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Value, Value]:
    """torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)"""  # noqa: E501
    if wants_indices(g):
        g.unsupported("the indices of the maxima, which are there for the backward pass")
    shape = [pooled_height, pooled_width]
    corners = g.cast(rois, input.dtype)
    result = g.op("MaxRoiPool", input, corners, pooled_shape=shape, spatial_scale=float(spatial_scale))
    return result, result


@converter("torchvision::ps_roi_align")
def ps_roi_align(
    g: Builder,
    input: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Value, Value]:
    """torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)

    Each bin has its own channels: all channels are aligned, and for each bin its own are selected.
    """  # noqa: E501
    pooled = (pooled_height, pooled_width)
    aligned = _aligned(g, input, rois, spatial_scale, pooled, sampling_ratio, aligned=True)
    shape = g.outputs[0].shape
    bins = pooled_height * pooled_width
    flat = emit.reshape(g, aligned, [*shape[:2], bins * bins])
    own = g.op("Gather", flat, g.constant(torch.arange(bins) * (bins + 1)), axis=2)
    return emit.reshape(g, g.typed(own, input.dtype, (*shape[:2], bins)), shape), _channels(g, shape)


def _channels(g: Builder, shape: Shape) -> Value:
    """The channel that each element of the result was taken from."""
    rest = [int(size) for size in shape[1:] if isinstance(size, int)]
    channels = torch.arange(rest[0] * rest[1] * rest[2], dtype=torch.int32).reshape(1, *rest)
    return emit.expand(g, g.constant(channels), shape)


@converter("torchvision::ps_roi_pool")
def ps_roi_pool(
    g: Builder, input: Value, rois: Value, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Value, Value]:
    """torchvision::ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)

    Sums over bins are differences of cumulative sums, in double precision.
    """  # noqa: E501
    assert input.shape is not None
    shape = g.outputs[0].shape
    images, boxes = _images_and_boxes(g, g.cast(rois, input.dtype))
    corner = emit.pad(g, g.cast(input, torch.float64), [0, 0, 1, 1, 0, 0, 0, 0])
    sums = emit.cumsum(g, emit.cumsum(g, corner, 2), 3)
    rows = _bins(g, boxes, 1, spatial_scale, pooled_height, input.shape[2])
    columns = _bins(g, boxes, 0, spatial_scale, pooled_width, input.shape[3])
    top, bottom = (emit.unsqueeze(g, bound, [1, 3]) for bound in rows)
    left, right = (emit.unsqueeze(g, bound, [1, 2]) for bound in columns)
    image, channel = emit.unsqueeze(g, images, [1, 2, 3]), g.cast(_channels(g, shape), torch.int64)

    def at(y: Value, x: Value) -> Value:
        indices = [emit.unsqueeze(g, emit.expand(g, index, shape), [4]) for index in (image, channel, y, x)]
        return g.op("GatherND", sums, g.op("Concat", *indices, axis=4))

    inner = g.op("Add", g.op("Sub", at(bottom, right), at(top, right)), g.op("Sub", at(top, left), at(bottom, left)))
    area = g.op("Mul", g.op("Sub", bottom, top), g.op("Sub", right, left))
    empty = g.op("Or", emit.less_or_equal(g, bottom, top), emit.less_or_equal(g, right, left))
    mean = g.op("Div", inner, g.cast(g.op("Max", area, 1), torch.float64))
    return g.cast(emit.where(g, empty, 0.0, mean, torch.float64), input.dtype), _channels(g, shape)


def _bins(g: Builder, boxes: Value, column: int, scale: float, count: int, length: AnySize) -> tuple[Value, Value]:
    """The starts and ends of the bins of each box along one axis, in pixels within the image."""
    start, end = (
        _rounded(g, g.op("Mul", g.op("Gather", boxes, g.constant([at], torch.int64), axis=1), float(scale)))
        for at in (column, column + 2)
    )
    size = g.op("Div", g.op("Max", g.op("Sub", end, start), 1.0), float(count))
    last = g.op("Sub", sizes.scalar(g, length), 1)
    numbers = torch.arange(count, dtype=boxes.dtype)
    bounds = (
        g.op("Floor", g.op("Mul", g.constant(numbers), size)),
        g.op("Ceil", g.op("Mul", g.constant(numbers + 1), size)),
    )
    first, final = (
        g.op("Min", g.op("Max", g.cast(g.op("Add", bound, start), torch.int64), 0), last) for bound in bounds
    )
    return first, final


def _rounded(g: Builder, x: Value) -> Value:
    """Round to the nearest integer, halves away from zero."""
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Add", g.op("Abs", x), 0.5)))
