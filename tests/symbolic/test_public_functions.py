"""Autograd Functions with the symbolics that public projects give them: quantizers, activations, attention, norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from onnxport import symbolic_helper as sym_help
from tests.symbolic.harness import kernel
from tests.symbolic.kinds import N_OF_X, Kind, check_kind, function

parse_args = sym_help.parse_args
KINDS: dict[str, Kind] = {}

# Autograd Functions


def _quantize(ctx: Any, x: torch.Tensor, config: dict[str, Any]) -> torch.Tensor:
    levels = 2 ** (config["bits"] - 1)
    return torch.clamp(torch.round(x / config["scale"]), -levels, levels - 1) * config["scale"]


def _quantize_symbolic(g: Any, x: Any, config: dict[str, Any]) -> Any:
    scale = g.op("Constant", value_t=torch.tensor(config["scale"], dtype=torch.float32))
    zero = g.op("Constant", value_t=torch.tensor(0, dtype=torch.int8 if config["signed"] else torch.uint8))
    return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)


Quantize = function("Quantize", _quantize, _quantize_symbolic)
KINDS["quantizer with a dict"] = Kind(
    lambda x: Quantize.apply(x, {"bits": 8, "scale": 0.05, "signed": True}), [torch.randn(2, 5)], [torch.randn(6, 5)],
    ["QuantizeLinear", "DequantizeLinear"], options=N_OF_X,
)  # fmt: skip

PerChannel = function(
    "PerChannel",
    lambda ctx, x, scale, axis, low, high: torch.clamp(torch.round(x / scale[:, None]), low, high) * scale[:, None],
    lambda g, x, scale, axis, low, high: g.op(
        "quant.lab::Quant", x, scale, axis_i=axis, signed_i=low < 0, narrow_i=int(low == -high), rounding_mode_s="ROUND"
    ),
)
KINDS["quantizer of weights in a domain"] = Kind(
    lambda x, scale: PerChannel.apply(x, scale, 0, -127, 127), [torch.randn(3, 5), torch.rand(3) + 0.1],
    [torch.randn(3, 5), torch.rand(3) + 0.1], ["quant.lab::Quant"],
    kernels=[kernel("quant.lab", "Quant", lambda x, s, axis, signed, narrow, rounding_mode: (
        np.clip(np.rint(x / s[:, None]), -127 if narrow else -128, 127) * s[:, None]).astype(x.dtype))],
)  # fmt: skip

Round = function("RoundSTE", lambda ctx, x: torch.round(x), lambda g, x: g.op("Round", x))
KINDS["straight-through rounding"] = Kind(
    lambda x: Round.apply(x * 4) / 4, [torch.randn(2, 5)], [torch.randn(6, 5)], ["Mul", "Round", "Div"], options=N_OF_X
)

Swish = function(
    "SwishImplementation", lambda ctx, x: x * torch.sigmoid(x), lambda g, x: g.op("Mul", x, g.op("Sigmoid", x))
)
KINDS["memory-efficient swish"] = Kind(
    lambda x: Swish.apply(x),  # noqa: PLW0108
    [torch.randn(2, 5)],
    [torch.randn(6, 5)],
    ["Sigmoid", "Mul"],
    options=N_OF_X,
)

MishFunction = function(
    "MishAutoFn",
    lambda ctx, x: x.mul(torch.tanh(F.softplus(x))),
    lambda g, x: g.op("Mul", x, g.op("Tanh", g.op("Softplus", x))),
)
KINDS["memory-efficient mish"] = Kind(
    lambda x: MishFunction.apply(x),  # noqa: PLW0108
    [torch.randn(2, 5)],
    [torch.randn(6, 5)],
    ["Softplus", "Tanh", "Mul"],
    options=N_OF_X,
)


def _layer_norm_symbolic(g: Any, x: Any, weight: Any, bias: Any, shape: tuple[int, ...], eps: float) -> Any:
    axes = [-i for i in range(len(shape), 0, -1)]
    two = g.op("Constant", value_t=torch.tensor(2.0))
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes_i=axes))
    variance = g.op("ReduceMean", g.op("Pow", centred, two), axes_i=axes)
    normal = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.op("Constant", value_t=torch.tensor(eps)))))
    return g.op("Add", g.op("Mul", normal, weight), bias)


FusedLayerNorm = function(
    "FusedLayerNormAffine", lambda ctx, x, w, b, shape, eps: F.layer_norm(x, shape, w, b, eps), _layer_norm_symbolic
)


class FusedNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(5)), nn.Parameter(torch.rand(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = FusedLayerNorm.apply(x, self.weight, self.bias, (5,), 1e-5)
        return result


KINDS["fused layer norm with axes as attributes"] = Kind(
    FusedNorm().eval(), [torch.randn(2, 5)], [torch.randn(6, 5)], ["ReduceMean", "Sqrt"], options=N_OF_X
)


def _attend(
    ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, scale: float, causal: bool
) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * scale, -1) @ v


def _attend_symbolic(g: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> Any:
    assert mask is None and causal is False
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm_i=[0, 2, 1])), scale)
    return g.op("MatMul", g.op("Softmax", scores, axis_i=-1), v)


Attend = function("FlashAttention", _attend, _attend_symbolic)
KINDS["attention without a mask"] = Kind(
    lambda x: Attend.apply(x, x, x, None, 1 / math.sqrt(5), False), [torch.randn(1, 3, 5)], [torch.randn(4, 3, 5)],
    ["MatMul", "Softmax", "MatMul"], options=N_OF_X,
)  # fmt: skip

FusedAttention = function(
    "FusedAttention", _attend,
    lambda g, q, k, v, mask, scale, causal: g.op(
        "lab.fused::Attention", q, k, v, scale_f=scale, causal_i=causal, layout_s="bsd"
    ).setType(v.type()),
)  # fmt: skip
KINDS["attention as one operator of a domain"] = Kind(
    lambda x: FusedAttention.apply(x, x, x, None, 0.5, False), [torch.randn(1, 3, 5)], [torch.randn(4, 3, 5)],
    ["lab.fused::Attention"], options=N_OF_X,
    kernels=[kernel("lab.fused", "Attention", lambda q, k, v, scale, causal, **_: _attend(
        None, *(torch.from_numpy(np.array(a)) for a in (q, k, v)), None, scale, bool(causal)).numpy())],
)  # fmt: skip


def _spectral(ctx: Any, weight: torch.Tensor, u: torch.Tensor, eps: float) -> torch.Tensor:
    v = F.normalize(weight.t() @ u, dim=0, eps=eps)
    return weight / torch.dot(F.normalize(weight @ v, dim=0, eps=eps), weight @ v)


def _spectral_symbolic(g: Any, weight: Any, u: Any, eps: float) -> Any:
    def normalized(x: Any) -> Any:
        return g.op("LpNormalization", x, axis_i=0, p_i=2)

    v = normalized(g.op("MatMul", u, weight))
    product = g.op("MatMul", weight, v)
    return g.op("Div", weight, g.op("MatMul", normalized(product), product))


SpectralNorm = function("SpectralNorm", _spectral, _spectral_symbolic)
KINDS["spectral norm"] = Kind(
    lambda weight, u, x: x @ SpectralNorm.apply(weight, u, 1e-12),
    [torch.randn(3, 4), torch.randn(3), torch.randn(2, 3)],
    [torch.randn(3, 4), torch.randn(3), torch.randn(6, 3)], ["LpNormalization", "Div"], options=N_OF_X,
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_kind(name: str) -> None:
    check_kind(KINDS[name])
