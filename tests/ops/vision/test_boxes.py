from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.ops.harness import Case, F, Input, X, table
from tests.ops.torchvision_operators import LIBRARY  # noqa: F401 - keeps the operators declared

# ONNX Runtime 1.31 has kernels for RoiAlign and MaxRoiPool up to here.
LAST = 21
# torchvision's own have these dtypes; the runtime pools regions in float32 alone.
DOUBLE = (torch.float32, torch.float64)
vision: Any = torch.ops.torchvision


def boxes(shape: tuple[int, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    corner = torch.rand(shape[0], 2, generator=generator) * 4
    return torch.cat([corner, corner + torch.rand(shape[0], 2, generator=generator) * 4 + 0.5], 1)


def regions(shape: tuple[int, ...]) -> Tensor:
    """Boxes with their images: in the middle, over the border, outside, and very small."""
    x = boxes(shape) * 2 - 2
    x[0] = torch.tensor([1.2, 1.2, 1.4, 1.5])
    x[-1] = torch.tensor([30.0, 30.0, 33.0, 33.0])
    return torch.cat([torch.arange(shape[0])[:, None] % 2, x], 1).to(torch.float32)


def turned(shape: tuple[int, ...]) -> Tensor:
    """Regions whose second corner is before the first, in one direction or in both."""
    x = regions(shape)
    x[:, [1, 3]] = x[:, [3, 1]]
    x[::2, [2, 4]] = x[::2, [4, 2]]
    return x


def kept(threshold: float) -> Callable[..., Tensor]:
    return lambda boxes, scores: vision.nms(boxes, scores, threshold)


def by_class(boxes: Tensor, scores: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """As torchvision's batched_nms: boxes of other classes are moved apart."""
    apart = classes.to(boxes) * (boxes.max() + 1)
    places = vision.nms(boxes + apart[:, None], scores, 0.3)
    return boxes[places], scores[places]


def best(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """As a detector ends: what scores low is dropped, of the rest the best three are taken."""
    likely = scores > 0.3
    boxes, scores = boxes[likely], scores[likely]
    places = vision.nms(boxes, scores, 0.5)[:3]
    return boxes[places], scores[places]


def aligned(scale: float, ratio: int, half_pixel: bool) -> Callable[..., Tensor]:
    return lambda x, rois: vision.roi_align(x, rois, scale, 2, 3, ratio, half_pixel)


def scaled_at_run_time(x: Tensor, rois: Tensor) -> Tensor:
    pooled: Tensor = vision.roi_align(x, rois, rois.shape[0] / 8, 2, 3, 2, False)
    return pooled


def deformed(groups: int = 1, offset_groups: int = 1, masked: bool = False, **moves: int) -> Callable[..., Tensor]:
    def call(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        at = {"stride": 1, "pad": 0, "dilation": 1} | moves
        steps = [at[name] for name in ("stride", "pad", "dilation") for _ in "hw"]
        return vision.deform_conv2d(x, weight, offset, mask, bias, *steps, groups, offset_groups, masked)

    return call


BOXES = X("s", 4, make=boxes)
REGIONS = X("c", 5, make=regions)
TURNED = X("c", 5, make=turned)
NO_REGIONS = X(0, 5, make=lambda shape: torch.zeros(0, 5))
IMAGES = F(2, 3, 7, 9)
SCORES = F("s", low=0, high=1)
TIED = X("s", make=lambda shape: (torch.arange(shape[0]) % 3).to(torch.float32))
NONE = X(0, 4, make=lambda shape: torch.zeros(0, 4))


def deformable(
    channels: int, features: int, points: int, groups: int = 1, size: tuple[int, int] = (5, 6)
) -> list[Input]:
    offsets = F("n", 2 * points, *size, low=-3, high=3)
    return [
        F("n", channels, 7, 8),
        F(features, channels // groups, 3, 3),
        offsets,
        F("n", points, *size, low=0, high=1),
        F(features),
    ]


CASES = [
    Case(
        "nms",
        kept(0.3),
        [BOXES, SCORES],
        since=10,
        dtypes=(),
        graph=["Gather", "Max", "Unsqueeze", "Unsqueeze", "NonMaxSuppression", "Gather"],
    ),
    Case("nms-corners-in-any-order", kept(0.1), [F("s", 4), SCORES], since=10, dtypes=()),
    Case("nms-ties", kept(0.2), [BOXES, TIED], since=10, dtypes=()),
    Case("nms-none", kept(0.3), [NONE, F(0)], since=10, dtypes=()),
    Case("nms-by-class", by_class, [BOXES, SCORES, Input(("s",), 0, 3, torch.int64)], since=10, dtypes=()),
    Case("nms-best", best, [BOXES, SCORES], since=10, dtypes=()),
    Case("roi-align", aligned(1.0, 2, False), [IMAGES, REGIONS], runs_until=LAST, since=10, dtypes=DOUBLE),
    Case("roi-align-scaled", aligned(0.5, 1, False), [IMAGES, REGIONS], runs_until=LAST, since=10, dtypes=DOUBLE),
    Case("roi-align-run-time-scale", scaled_at_run_time, [IMAGES, REGIONS], runs_until=LAST, since=10, dtypes=DOUBLE),
    Case("roi-align-adaptive", aligned(0.8, -1, False), [IMAGES, REGIONS], runs_until=LAST, since=10),
    Case("roi-align-half-pixel", aligned(0.8, 2, True), [IMAGES, REGIONS], runs_until=LAST, since=16, dtypes=DOUBLE),
    Case("roi-align-half-pixel-adaptive", aligned(1.0, 0, True), [IMAGES, REGIONS], runs_until=LAST, since=16),
    Case("roi-align-turned", aligned(0.8, 0, False), [IMAGES, TURNED], runs_until=LAST, since=10, dtypes=DOUBLE),
    Case(
        "roi-align-half-pixel-turned", aligned(1.8, 3, True), [IMAGES, TURNED], runs_until=LAST, since=16, dtypes=DOUBLE
    ),
    Case("roi-align-none", aligned(0.8, 2, False), [IMAGES, NO_REGIONS], runs_until=LAST, since=10),
    Case("roi-align-half-pixel-none", aligned(0.8, -1, True), [IMAGES, NO_REGIONS], runs_until=LAST, since=16),
    Case(
        "roi-pool",
        lambda x, rois: vision.roi_pool(x, rois, 0.7, 3, 2)[0],
        [IMAGES, REGIONS],
        runs_until=LAST,
        dtypes=(torch.float16,),
    ),
    Case(
        "ps-roi-align",
        lambda x, rois: vision.ps_roi_align(x, rois, 0.7, 3, 2, 2),
        [F(2, 12, 7, 9), REGIONS],
        since=16,
        runs_until=LAST,
    ),
    Case(
        "ps-roi-pool",
        lambda x, rois: vision.ps_roi_pool(x, rois, 0.7, 3, 2),
        [F(2, 12, 7, 9), REGIONS],
        since=11,
        dtypes=DOUBLE,
    ),
    Case("deform", deformed(), deformable(3, 4, 9), since=11, dtypes=DOUBLE, graph=["DeformConv"]),
    Case("deform-mask", deformed(masked=True), deformable(3, 4, 9), since=11),
    Case("deform-groups", deformed(groups=2, offset_groups=2, masked=True), deformable(4, 6, 18, 2), since=11),
    Case("deform-steps", deformed(stride=2, pad=1, dilation=2), deformable(3, 4, 9, size=(3, 3)), since=11),
]

test_vision = table(CASES)
