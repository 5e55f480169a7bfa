"""Detectors, with boxes that are chosen inside the model and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.models.model import Axes, Call, Model, enliven
from tests.models.packages import package
from tests.models.vision import IMAGE

ONE: Axes = {"image": {1: "height", 2: "width"}}
SMALL = {"min_size": 96, "max_size": 160, "num_classes": 4, "weights": None, "weights_backbone": None}
REGIONS = {**SMALL, "rpn_pre_nms_top_n_test": 40, "rpn_post_nms_top_n_test": 12, "box_detections_per_img": 6}
HEADS = ("rpn.head.bbox_pred", "roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred")


def detector(kind: str, calm: tuple[str, ...] = (), **config: Any) -> Callable[[], Call]:
    """A detector of torchvision on one image, which it resizes; boxes of low scores count too.

    ``calm`` are layers whose results are made small: where a sigmoid is 1, any order of boxes is right, and boxes that
    are moved far out are dropped.
    """

    def build() -> Call:
        model = enliven(getattr(package("torchvision.models.detection"), kind)(**config))
        for path in calm:
            model.get_submodule(path).weight.data.mul_(0.02)
        return Call(Whole(model), (torch.rand(3, 80, 120),), axes=ONE)

    return build


class Whole(nn.Module):
    """One image in, the dict of what was found in it out."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image: Tensor) -> Any:
        return self.detector([image])[0]


class Head(nn.Module):
    """Anchors and strides in the manner of one-stage detectors: the grid is made anew for each size."""

    def __init__(self, width: int = 16, classes: int = 3) -> None:
        super().__init__()
        self.outputs = classes + 5
        self.strides = (8, 16)
        self.register_buffer("anchors", torch.tensor([[[10.0, 13], [16, 30]], [[30, 61], [62, 45]]]))
        self.stem = nn.Sequential(*(self.block(a, b) for a, b in ((3, width), (width, width), (width, width))))
        self.deeper = self.block(width, width)
        self.heads = nn.ModuleList(nn.Conv2d(width, 2 * self.outputs, 1) for _ in self.strides)

    @staticmethod
    def block(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.SiLU())

    @staticmethod
    def grid(wide: int, high: int) -> Tensor:
        y, x = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        return torch.stack((x, y), 2).view(1, 1, high, wide, 2).float()

    def forward(self, x: Tensor) -> Tensor:
        first = self.stem(x)
        levels = [first, self.deeper(first)]
        found = []
        for level, (head, features) in enumerate(zip(self.heads, levels, strict=True)):
            y = head(features)
            batch, _, high, wide = y.shape
            y = y.view(batch, 2, self.outputs, high, wide).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            anchors = self.anchors[level].view(1, 2, 1, 1, 2)
            y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + self.grid(wide, high)) * self.strides[level]
            y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * anchors
            found.append(y.view(batch, -1, self.outputs))
        return torch.cat(found, 1)


class Suppressed(nn.Module):
    """The head with what follows it: corners, the best class, and non-maximum suppression for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.head = Head()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (found,) = self.head(x)
        scores, classes = (found[:, 4:5] * found[:, 5:]).max(1)
        likely = scores > 0.25
        found, scores, classes = found[likely], scores[likely], classes[likely]
        boxes = torch.cat([found[:, :2] - found[:, 2:4] / 2, found[:, :2] + found[:, 2:4] / 2], 1)
        apart = boxes + classes[:, None].to(boxes) * 4096
        kept = torch.ops.torchvision.nms(apart, scores, 0.45)[:50]
        return boxes[kept], scores[kept], classes[kept]


class Queries(nn.Module):
    """Detection as a set: a transformer turns learned queries into boxes."""

    def __init__(self, width: int = 32, queries: int = 10, classes: int = 4) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=4, padding=3), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1)
        )
        self.transformer = nn.Transformer(width, 4, 1, 1, 64)
        self.queries = nn.Parameter(torch.rand(queries, width))
        self.rows = nn.Parameter(torch.rand(50, width // 2))
        self.columns = nn.Parameter(torch.rand(50, width // 2))
        self.classes, self.boxes = nn.Linear(width, classes + 1), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.backbone(x)
        high, wide = features.shape[-2:]
        across = self.columns[:wide].unsqueeze(0).repeat(high, 1, 1)
        down = self.rows[:high].unsqueeze(1).repeat(1, wide, 1)
        places = torch.cat([across, down], dim=-1).flatten(0, 1).unsqueeze(1)
        queries = self.queries.unsqueeze(1).repeat(1, x.shape[0], 1)
        hidden = self.transformer(places + 0.1 * features.flatten(2).permute(2, 0, 1), queries).transpose(0, 1)
        return {"logits": self.classes(hidden), "boxes": self.boxes(hidden).sigmoid()}


def images(model: type[nn.Module], batch: int = 2, axes: Axes = IMAGE) -> Callable[[], Call]:
    return lambda: Call(enliven(model()), (torch.rand(batch, 3, 64, 96),), axes=axes)


TORCHVISION = {
    "faster-rcnn": detector("fasterrcnn_mobilenet_v3_large_fpn", box_score_thresh=0.0, **REGIONS),
    "mask-rcnn": detector("maskrcnn_resnet50_fpn", HEADS, box_score_thresh=0.0, **REGIONS),
    "keypoint-rcnn": detector("keypointrcnn_resnet50_fpn", HEADS, box_score_thresh=0.0, **REGIONS | {"num_classes": 2}),
    "retinanet": detector(
        "retinanet_resnet50_fpn", ("head.classification_head.cls_logits",), score_thresh=0.0, topk_candidates=15,
        detections_per_img=10, **SMALL,
    ),
    "fcos": detector("fcos_resnet50_fpn", topk_candidates=15, detections_per_img=10, score_thresh=0.01, **SMALL),
    "ssdlite": detector(
        "ssdlite320_mobilenet_v3_large", topk_candidates=15, detections_per_img=10, num_classes=4,
        weights=None, weights_backbone=None,
    ),
}  # fmt: skip

MODELS = [
    *(Model(name, "detection", build, ("torchvision",)) for name, build in TORCHVISION.items()),
    Model("anchor-head", "detection", images(Head), fast=True),
    Model("anchor-head-nms", "detection", images(Suppressed, 1, {"x": {2: "height", 3: "width"}}), fast=True),
    Model("detr-like", "detection", images(Queries), fast=True),
]
