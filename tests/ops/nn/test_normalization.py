"""Normalisations."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as nnf

import onnxport
from tests.ops.harness import FLOATS, Case, F, table

LOW = (*FLOATS, torch.bfloat16)
IMAGE = [F("n", 4, "h", "w")]
VOLUME = [F("n", 4, 3, "h", 2)]


def trained(module: nn.Module) -> nn.Module:
    """The module with parameters and statistics that differ from one another, in evaluation."""
    generator = torch.Generator().manual_seed(3)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module.eval()


def module_case(name, module, inputs, **settings):
    return Case(name, trained(module), inputs, **settings)


def given(size: int) -> list:
    return [F(size) for _ in range(2)]


def statistics(size: int) -> list:
    return [F(size), F(size, low=0.5)]


BATCH_NORM = [
    module_case("batch_norm1d", nn.BatchNorm1d(4), [F("n", 4)], graph=["BatchNormalization"]),
    module_case("batch_norm1d_sequence", nn.BatchNorm1d(4), [F("n", 4, "t")]),
    Case("batch_norm_channels", nnf.batch_norm, [F("n", "c"), F("c"), F("c", low=0.1)]),
    module_case("batch_norm2d", nn.BatchNorm2d(4), IMAGE, dtypes=LOW, graph=["BatchNormalization"]),
    module_case("batch_norm3d", nn.BatchNorm3d(4), VOLUME),
    module_case("batch_norm_plain", nn.BatchNorm2d(4, affine=False, eps=1e-2), IMAGE, dtypes=LOW),
    module_case("batch_norm_own_statistics", nn.BatchNorm2d(4, track_running_stats=False), IMAGE, dtypes=LOW),
    module_case("batch_norm_nothing", nn.BatchNorm3d(4, affine=False, track_running_stats=False), VOLUME),
    Case("batch_norm_by_batch", lambda x: nnf.batch_norm(x, None, None, training=True), [F("t", "c")]),
    Case(
        "batch_norm_by_batch_affine",
        lambda x, w, b: nnf.batch_norm(x, torch.zeros(4), torch.ones(4), w, b, training=True),
        [F("n", 4, "t"), *given(4)],
        dtypes=(torch.float32,),
    ),
    Case(
        "batch_norm_training",
        nn.BatchNorm2d(16),
        [F("n", 16, "h", "w")],
        keywords={"training": onnxport.TrainingMode.TRAINING},
        graph=["BatchNormalization"],
        content=False,
    ),
    Case(
        "native_batch_norm",
        lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
        [*IMAGE, *given(4)],
    ),
    Case(
        "native_batch_norm_inference",
        lambda x, w, b, m, v: torch.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5)[0],
        [*IMAGE, *given(4), *statistics(4)],
    ),
    Case(
        "native_batch_norm_no_training",
        lambda x, m, v: torch.ops.aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-5)[0],
        [*IMAGE, *statistics(4)],
    ),
    Case(
        "native_batch_norm_no_stats",
        lambda x: torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5),
        IMAGE,
    ),
    Case(
        "native_batch_norm_functional",
        lambda x, m, v: torch.ops.aten._native_batch_norm_legit_functional(x, None, None, m, v, True, 0.1, 1e-5),
        [F(3, 4, 5), *statistics(4)],
    ),
]

INSTANCE_NORM = [
    Case("instance_norm1d", nn.InstanceNorm1d(4), [F("n", 4, "t")], graph=["InstanceNormalization"]),
    Case("instance_norm2d", nn.InstanceNorm2d(4), IMAGE, dtypes=LOW),
    Case("instance_norm_channels", nnf.instance_norm, [F("n", "c", "h", 5)]),
    module_case("instance_norm_affine", nn.InstanceNorm2d(4, affine=True, eps=1e-3), IMAGE, dtypes=LOW),
    module_case("instance_norm3d", nn.InstanceNorm3d(4, affine=True), VOLUME),
    module_case("instance_norm_tracked", nn.InstanceNorm2d(4, affine=True, track_running_stats=True), IMAGE),
    module_case("instance_norm_tracked_plain", nn.InstanceNorm1d(4, track_running_stats=True), [F("n", 4, "t")]),
]

LAYER_NORM = [
    module_case("layer_norm", nn.LayerNorm(6), [F("n", "t", 6)], dtypes=LOW, graph=["LayerNormalization"]),
    module_case("layer_norm_two_axes", nn.LayerNorm([5, 6]), [F("n", "t", 5, 6)]),
    module_case("layer_norm_no_bias", nn.LayerNorm(6, bias=False), [F("n", 6)]),
    module_case("layer_norm_plain", nn.LayerNorm(6, elementwise_affine=False, eps=1e-2), [F("n", 6)], dtypes=LOW),
    Case("layer_norm_dynamic", lambda x: nnf.layer_norm(x, x.shape[1:]), [F("n", "t", 6)]),
    Case("native_layer_norm", lambda x, w, b: torch.native_layer_norm(x, [6], w, b, 1e-5), [F("n", "t", 6), *given(6)]),
]

GROUP_NORM = [
    module_case("group_norm", nn.GroupNorm(2, 4), IMAGE, dtypes=LOW),
    module_case(
        "group_norm_plain",
        nn.GroupNorm(2, 4, affine=False),
        IMAGE,
        graph=["Reshape", "InstanceNormalization", "Reshape"],
    ),
    module_case("group_norm_one", nn.GroupNorm(1, 4), [F("n", 4)]),
    module_case("group_norm_each", nn.GroupNorm(4, 4), VOLUME),
    Case(
        "native_group_norm",
        lambda x, w, b: torch.native_group_norm(x, w, b, x.shape[0], 4, 15, 2, 1e-5),
        [F("n", 4, 3, 5), *given(4)],
        dynamic=False,
    ),
]

RMS_NORM = [
    module_case("rms_norm", nn.RMSNorm(6, eps=1e-3), [F("n", "t", 6)], dtypes=LOW),
    module_case("rms_norm_default_eps", nn.RMSNorm([5, 6]), [F("n", 5, 6, low=-1e-3, high=1e-3)], dtypes=LOW),
    module_case("rms_norm_plain", nn.RMSNorm(6, elementwise_affine=False), [F("n", "t", 6)], dtypes=LOW),
    Case("rms_norm_dynamic", lambda x: nnf.rms_norm(x, x.shape[1:]), [F("n", "t", 6)]),
    Case("fused_rms_norm", lambda x, w: torch.ops.aten._fused_rms_norm(x, [6], w, 1e-5), [F("n", "t", 6), F(6)]),
]

OTHERS = [
    # The runtime has no average pool in float64, torch none in float16.
    Case("local_response_norm", lambda x: nnf.local_response_norm(x, 3), [F("n", 4, 5, 6)], dtypes=()),
    Case("renorm", lambda x: torch.renorm(x, 2, 1, 1.5), [F("n", "c", 5)], since=9),
    Case("renorm_sum", lambda x: torch.renorm(x, 1, 0, 40.0), [F("n", "c", 5)], since=9),
    Case("weight_norm", lambda v, g: torch._weight_norm(v, g, 0), [F(4, 3, 5), F(4, 1, 1)]),
    Case("normalize", nnf.normalize, [F("n", "c", 5)]),
]

test_normalization = table(BATCH_NORM + INSTANCE_NORM + LAYER_NORM + GROUP_NORM + RMS_NORM + OTHERS)


@pytest.mark.parametrize("opset", [9, 13, 14, 15, 20])
@pytest.mark.parametrize("channels", [1, 2, 8, 9, 16])
def test_fresh_statistics_in_training_leave_the_weights_alone(channels: int, opset: int) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, channels, 1), nn.BatchNorm2d(channels), nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)
    )
    nn.init.zeros_(model[2].bias)  # type: ignore[arg-type]
    program = onnxport.export(
        copy.deepcopy(model),
        torch.randn(4, 3, 5, 5),
        input_names=["x"],
        dynamic_axes={"x": {0: "n"}},
        opset_version=opset,
        training=onnxport.TrainingMode.TRAINING,
    )
    for n in (2, 4, 9):
        x = torch.randn(n, 3, 5, 5)
        torch.testing.assert_close(program(x), copy.deepcopy(model).train()(x), rtol=1e-4, atol=1e-5)
