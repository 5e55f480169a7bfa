"""Symbolic functions of public kinds that override built-in translations, written from their documented behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from onnxport import symbolic_helper as sym_help
from onnxport import symbolic_opset9
from tests.symbolic.harness import kernel
from tests.symbolic.kinds import N_OF_X, Kind, check_kind, roll

parse_args = sym_help.parse_args
KINDS: dict[str, Kind] = {}

# Overrides of built-in operators


def _hardswish(g: Any, self: Any) -> Any:
    gate = g.op("HardSigmoid", self, alpha_f=1 / 6)
    return g.op("Mul", self, gate)


KINDS["hard swish by a hard sigmoid"] = Kind(
    lambda x: F.hardswish(x), [torch.randn(2, 5)], [torch.randn(6, 5)], ["HardSigmoid", "Mul"],  # noqa: PLW0108
    {"aten::hardswish": _hardswish}, options=N_OF_X,
)  # fmt: skip


@parse_args("v", "i")
def _pixel_unshuffle(g: Any, self: Any, factor: int) -> Any:
    sizes = sym_help._get_tensor_sizes(self)
    channels, height, width = sizes[1:]
    parts = g.op("Reshape", self, [0, channels, height // factor, factor, width // factor, factor])
    moved = g.op("Transpose", parts, perm_i=[0, 1, 3, 5, 2, 4])
    return g.op("Reshape", moved, [0, channels * factor * factor, height // factor, width // factor])


KINDS["pixel unshuffle by reshapes"] = Kind(
    lambda x: F.pixel_unshuffle(x, 2), [torch.randn(1, 3, 4, 6)], [torch.randn(3, 3, 4, 6)],
    ["Reshape", "Transpose", "Reshape"], {"aten::pixel_unshuffle": _pixel_unshuffle}, options=N_OF_X,
)  # fmt: skip

KINDS["inverse of the runtime's own domain"] = Kind(
    lambda x: torch.inverse(x), [torch.randn(2, 3, 3)], [torch.randn(2, 3, 3)], ["com.microsoft::Inverse"],  # noqa: PLW0108
    {name: lambda g, x: g.op("com.microsoft::Inverse", x) for name in ("::linalg_inv", "::inverse")},
)  # fmt: skip


@parse_args("v", "s")
def _gelu(g: Any, x: Any, approximate: str) -> Any:
    assert approximate == "none"
    return g.op("com.microsoft::Gelu", x).setType(x.type())


KINDS["gelu of the runtime's own domain"] = Kind(
    nn.GELU(), [torch.randn(2, 5)], [torch.randn(2, 5)], ["com.microsoft::Gelu"], {"::gelu": _gelu}
)


@parse_args("v", "v", "i", "i", "b")
def _grid_sampler(g: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    return g.op(
        "com.microsoft::GridSample", x, grid, mode_s=["bilinear", "nearest", "bicubic"][mode],
        padding_mode_s=["zeros", "border", "reflection"][padding], align_corners_i=corners,
    )  # fmt: skip


KINDS["grid sampler of the runtime's own domain"] = Kind(
    lambda x, grid: F.grid_sample(x, grid, align_corners=True),
    [torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 2 - 1],
    [torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 2 - 1], ["com.microsoft::GridSample"],
    {"aten::grid_sampler": _grid_sampler},
)  # fmt: skip


KINDS["roll by slices"] = Kind(
    lambda x: torch.roll(x, (1, 2), (0, 1)), [torch.randn(4, 5)], [torch.randn(7, 5)],
    ["Slice", "Slice", "Concat", "Slice", "Slice", "Concat"], {"aten::roll": roll}, options=N_OF_X,
)  # fmt: skip


def _einsum(g: Any, equation: Any, tensors: Any, path: Any = None) -> Any:
    equation = sym_help._maybe_get_const(equation, "s")
    return g.op("Einsum", *sym_help._unpack_list(tensors), equation_s=equation)


KINDS["einsum with its list of tensors"] = Kind(
    lambda x, y: torch.einsum("nij,njk->nik", x, y), [torch.randn(2, 3, 4), torch.randn(2, 4, 5)],
    [torch.randn(6, 3, 4), torch.randn(6, 4, 5)], ["Einsum"], {"aten::einsum": _einsum},
    options={"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}},
)  # fmt: skip


def _adaptive_avg_pool2d(g: Any, self: Any, output_size: Any) -> Any:
    if sym_help._maybe_get_const(output_size, "is") == [1, 1]:
        return g.op("GlobalAveragePool", self)
    return symbolic_opset9.adaptive_avg_pool2d(g, self, output_size)


KINDS["pooling that asks the built-in translation for the rest"] = Kind(
    lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1) + F.adaptive_avg_pool2d(x, (2, 2)).sum((2, 3)),
    [torch.randn(2, 3, 4, 4)], [torch.randn(2, 3, 4, 4)], ["GlobalAveragePool", "AveragePool"],
    {"aten::adaptive_avg_pool2d": _adaptive_avg_pool2d},
)  # fmt: skip


def _upsample(g: Any, x: Any, size: Any, scales: Any) -> Any:
    height, width = sym_help._get_const(scales, "fs", "scales")
    factors = g.op("Constant", value_t=torch.tensor([1.0, 1.0, height, width]))
    roi = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
    return g.op(
        "Resize", x, roi, factors, mode_s="nearest", nearest_mode_s="floor",
        coordinate_transformation_mode_s="asymmetric",
    )  # fmt: skip


KINDS["upsampling by scales"] = Kind(
    lambda x: F.interpolate(x, scale_factor=2.0), [torch.randn(1, 2, 3, 4)], [torch.randn(4, 2, 3, 4)], ["Resize"],
    {"aten::upsample_nearest2d": _upsample}, options=N_OF_X,
)  # fmt: skip


@parse_args("v", "i", "v", "v", "f", "i")
def _group_norm(g: Any, x: Any, groups: int, weight: Any, bias: Any, eps: float, cudnn: int) -> Any:
    rank = sym_help._get_tensor_rank(x)
    flat = g.op("Reshape", x, g.op("Constant", value_t=torch.LongTensor([0, groups, -1])))
    ones = g.op("Constant", value_t=torch.ones(groups))
    zeros = g.op("Constant", value_t=torch.zeros(groups))
    normal = g.op("InstanceNormalization", flat, ones, zeros, epsilon_f=eps)
    normal = g.op("Reshape", normal, g.op("Shape", x))
    axes = list(range(1, rank - 1))
    scaled = symbolic_opset9.mul(g, normal, sym_help._unsqueeze_helper(g, weight, axes))
    return symbolic_opset9.add(g, scaled, sym_help._unsqueeze_helper(g, bias, axes))


KINDS["group norm by instance norm"] = Kind(
    nn.GroupNorm(2, 4).eval(), [torch.randn(1, 4, 3, 3)], [torch.randn(5, 4, 3, 3)], ["InstanceNormalization"],
    {"aten::group_norm": _group_norm}, options={"input_names": ["x"], **N_OF_X},
)  # fmt: skip


@parse_args("v", "i")
def _cummax(g: Any, x: Any, dim: int) -> Any:
    return g.op("mmcv::cummax", x, dim_i=dim, outputs=2)


def _cummax_kernel(x: Any, dim: int) -> Any:
    values, places = torch.from_numpy(np.array(x)).cummax(dim)
    return values.numpy(), places.numpy()


KINDS["cummax as a plugin of two results"] = Kind(
    lambda x: tuple(torch.cummax(x, 1)), [torch.randn(2, 5)], [torch.randn(7, 5)], ["mmcv::cummax"],
    {"aten::cummax": _cummax}, [kernel("mmcv", "cummax", _cummax_kernel)], N_OF_X,
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_kind(name: str) -> None:
    check_kind(KINDS[name])
