"""Symbolic functions of detection projects: regions, suppression, deformable convolution, plugins."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnxport
from onnxport import symbolic_helper as sym_help
from onnxport import symbolic_opset11
from tests.symbolic.harness import kernel
from tests.symbolic.kinds import Kind, check_kind, function

parse_args = sym_help.parse_args
KINDS: dict[str, Kind] = {}

# Detection: regions, suppression, deformable convolution


def _nms_loop(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    low, high = torch.min(boxes[:, :2], boxes[:, 2:]), torch.max(boxes[:, :2], boxes[:, 2:])
    inter = (torch.min(high[:, None], high[None]) - torch.max(low[:, None], low[None])).clamp(min=0).prod(-1)
    area = (high - low).prod(-1)
    overlap = (inter / (area[:, None] + area[None] - inter)).nan_to_num()
    kept: list[int] = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if all(overlap[index, other] <= threshold for other in kept):
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def _nms_forward(
    ctx: Any, boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, offset: int
) -> torch.Tensor:
    return _nms_loop(torch.from_numpy(boxes.numpy()), torch.from_numpy(scores.numpy()), iou_threshold)


def _nms_symbolic(g: Any, boxes: Any, scores: Any, iou_threshold: float, offset: int) -> Any:
    boxes = sym_help._unsqueeze_helper(g, boxes, [0])
    scores = sym_help._unsqueeze_helper(g, sym_help._unsqueeze_helper(g, scores, [0]), [0])
    most = g.op("Constant", value_t=torch.tensor([1000], dtype=torch.long))
    threshold = g.op("Constant", value_t=torch.tensor([iou_threshold], dtype=torch.float))
    found = g.op("NonMaxSuppression", boxes, scores, most, threshold)
    place = sym_help._slice_helper(g, found, axes=[1], starts=[2], ends=[3])
    return sym_help._squeeze_helper(g, place, [1])


NMSop = function("NMSop", _nms_forward, _nms_symbolic)


def _boxes(count: int) -> list[torch.Tensor]:
    corner = torch.rand(count, 2) * 2
    return [torch.cat([corner, corner + 0.5 + torch.rand(count, 2)], 1), torch.rand(count)]


KINDS["suppression by ONNX's operator"] = Kind(
    lambda x, scores: x[NMSop.apply(x, scores, 0.4, 0)], _boxes(6), _boxes(15), ["NonMaxSuppression", "Gather"],
    options={"dynamic_axes": {"x": {0: "n"}, "scores": {0: "n"}}},
)  # fmt: skip


def _efficient_nms(
    ctx: Any, boxes: torch.Tensor, scores: torch.Tensor, count: int, version: str, params: tuple[float, float]
) -> Any:
    batch = boxes.shape[0]
    order = scores.max(-1).values.argsort(1, descending=True)[:, :count]
    return (
        torch.full((batch, 1), count, dtype=torch.int32), torch.take_along_dim(boxes, order[..., None], 1),
        torch.take_along_dim(scores.max(-1).values, order, 1), torch.take_along_dim(scores.argmax(-1), order, 1).int(),
    )  # fmt: skip


def _efficient_nms_symbolic(
    g: Any, boxes: Any, scores: Any, count: int, version: str, params: tuple[float, float]
) -> Any:
    out = g.op(
        "TRT::EfficientNMS_TRT", boxes, scores, background_class_i=-1, box_coding_i=0, iou_threshold_f=params[0],
        max_output_boxes_i=count, plugin_version_s=version, score_activation_i=0, score_threshold_f=params[1],
        outputs=4,
    )  # fmt: skip
    number, kept, kept_scores, classes = out
    return number, kept, kept_scores, classes


def _efficient_nms_kernel(boxes: Any, scores: Any, max_output_boxes: int, **_: Any) -> Any:
    given = (torch.from_numpy(np.array(array)) for array in (boxes, scores))
    return tuple(result.numpy() for result in _efficient_nms(None, *given, max_output_boxes, "", (0, 0)))


TRTNms = function("TRT_NMS", _efficient_nms, _efficient_nms_symbolic)
KINDS["suppression as a plugin of four results"] = Kind(
    lambda x, scores: TRTNms.apply(x, scores, 3, "1", (0.45, 0.25)), [torch.rand(1, 8, 4), torch.rand(1, 8, 5)],
    [torch.rand(4, 8, 4), torch.rand(4, 8, 5)], ["TRT::EfficientNMS_TRT"],
    kernels=[kernel("TRT", "EfficientNMS_TRT", _efficient_nms_kernel)],
    options={"dynamic_axes": {"x": {0: "n"}, "scores": {0: "n"}}},
)  # fmt: skip


def _deform(x: torch.Tensor, offset: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    """What stands for the convolution here: its kernel is not at hand, its interface is."""
    return F.conv2d(x, weight, padding=1) + offset.mean()


def _deform_symbolic(
    g: Any, x: Any, offset: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, deform_groups: int,
    bias: bool, im2col_step: int,
) -> Any:  # fmt: skip
    return g.op(
        "mmcv::MMCVDeformConv2d", x, offset, weight, stride_i=stride, padding_i=padding, dilation_i=dilation,
        groups_i=groups, deform_groups_i=deform_groups, bias_i=bias, im2col_step_i=im2col_step,
    )  # fmt: skip


DeformConv = function("DeformConv2dFunction", lambda ctx, *args: _deform(*args), _deform_symbolic)


class Deformable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 3, 3, 3))
        self.offset = nn.Conv2d(3, 18, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stride, padding = nn.modules.utils._pair(1), nn.modules.utils._pair(1)
        out: torch.Tensor = DeformConv.apply(x, self.offset(x), self.weight, stride, padding, (1, 1), 1, 1, False, 32)
        return out.relu_()


def _deform_kernel(x: Any, offset: Any, weight: Any, stride: Any, padding: Any, **_: Any) -> Any:
    assert list(stride) == [1, 1] and list(padding) == [1, 1]
    return _deform(*(torch.from_numpy(np.array(a)) for a in (x, offset, weight))).numpy()


KINDS["deformable convolution in a domain"] = Kind(
    Deformable().eval(), [torch.randn(1, 3, 5, 5)], [torch.randn(1, 3, 5, 5)],
    ["Conv", "mmcv::MMCVDeformConv2d", "Relu"],
    kernels=[kernel("mmcv", "MMCVDeformConv2d", _deform_kernel)], options={"custom_opsets": {"mmcv": 1}},
)  # fmt: skip


def _roi(x: torch.Tensor, rois: torch.Tensor, size: tuple[int, int], scale: float) -> torch.Tensor:
    """The mean of each channel of the image that a region is of: enough to tell one region from another."""
    return x.mean((2, 3))[rois[:, 0].long()][:, :, None, None].expand(-1, -1, *size) * scale


@parse_args("v", "v", "v", "f", "i", "i", "s", "b")
def _roi_symbolic(
    g: Any, x: Any, rois: Any, size: Any, scale: float, ratio: int, channels: int, mode: str, aligned: bool
) -> Any:
    return g.op(
        "mmcv::MMCVRoiAlign", x, rois, output_height_i=size[0], output_width_i=size[1], spatial_scale_f=scale,
        sampling_ratio_i=ratio, mode_s=mode, aligned_i=aligned,
    )  # fmt: skip


def _roi_kernel(x: Any, rois: Any, output_height: int, output_width: int, spatial_scale: float, **_: Any) -> Any:
    given = (torch.from_numpy(np.array(array)) for array in (x, rois))
    return _roi(*given, (output_height, output_width), spatial_scale).numpy()


RoiAlign = function(
    "RoIAlignFunction", lambda ctx, x, rois, size, scale, *rest: _roi(x, rois, size, scale).clone(), _roi_symbolic
)
KINDS["regions with parse_args on a Function"] = Kind(
    lambda x, rois: RoiAlign.apply(x, rois, (2, 2), 0.25, 2, 3, "avg", True),
    [torch.rand(2, 3, 4, 4), torch.tensor([[0.0, 0, 0, 1, 1], [1, 0, 0, 2, 2]])],
    [torch.rand(2, 3, 4, 4), torch.tensor([[1.0, 0, 0, 1, 1], [1, 0, 0, 2, 2], [0, 0, 0, 3, 3]])],
    ["mmcv::MMCVRoiAlign"],
    kernels=[kernel("mmcv", "MMCVRoiAlign", _roi_kernel)],
    options={"dynamic_axes": {"rois": {0: "k"}}},
)  # fmt: skip


def _roi_pool_symbolic(g: Any, x: Any, rois: Any, spatial_scale: float) -> Any:
    """MaxRoiPool takes the image's number first, as the rois have it; asked at other sizes by the caller."""
    pooled = g.op("MaxRoiPool", x, rois, pooled_shape_i=(1, 1), spatial_scale_f=spatial_scale)
    return symbolic_opset11.squeeze(g, symbolic_opset11.squeeze(g, pooled, 3), 2)


def _roi_pool(ctx: Any, x: torch.Tensor, rois: torch.Tensor, spatial_scale: float) -> torch.Tensor:
    return torch.stack(
        [x[0, :, int(r[2]) : int(r[4]) + 1, int(r[1]) : int(r[3]) + 1].amax((1, 2)) for r in rois.numpy()]
    )


RoiPool = function("RoIPool", _roi_pool, _roi_pool_symbolic)
KINDS["regions by ONNX's operator"] = Kind(
    lambda x, rois: RoiPool.apply(x, rois, 1.0),
    [torch.rand(1, 3, 6, 6), torch.tensor([[0.0, 1, 1, 3, 4], [0, 0, 0, 2, 2]])],
    [torch.rand(1, 3, 6, 6), torch.tensor([[0.0, 1, 1, 3, 4], [0, 0, 0, 2, 2]])], ["MaxRoiPool"],
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_kind(name: str) -> None:
    check_kind(KINDS[name])


def test_a_plugin_described_by_json_without_a_domain() -> None:
    """As the plugins of old runtimes were written: no domain, the configuration as a string."""
    plugin = function(
        "Plugin",
        lambda ctx, x, info: x * 2,
        lambda g, x, info: g.op("DCNv2", x, name_s="DCNv2", info_s=json.dumps(info)),
    )
    with pytest.warns(onnxport.VerificationWarning, match="DCNv2"):
        program = onnxport.export(lambda x: plugin.apply(x, {"groups": 1}), torch.randn(2, 3))
    (node,) = program.model_proto.graph.node
    assert (node.op_type, node.domain) == ("DCNv2", "")
    assert json.loads(next(a.s for a in node.attribute if a.name == "info")) == {"groups": 1}
    assert program.verification.skipped is not None and "DCNv2" in program.verification.skipped
