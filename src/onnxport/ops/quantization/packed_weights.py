"""Weights and biases as torch.ao's layers pack them for its kernels."""

from __future__ import annotations

from typing import Any

import torch

from onnxport.lower.builder import Builder
from onnxport.lower.quantized import scale_of
from onnxport.lower.value import Value
from onnxport.ops.quantization.grid import Grid, dequantized

PER_TENSOR = (torch.per_tensor_affine, torch.per_tensor_symmetric)


def unpacked(packed: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight, bias = packed.unpack()
    return weight, bias


def scales_of(weight: torch.Tensor) -> torch.Tensor:
    """The scale of a weight: one number, or one for each channel."""
    if weight.qscheme() in PER_TENSOR:
        return torch.tensor(weight.q_scale(), dtype=torch.float32)
    return weight.q_per_channel_scales().float()


def zeros_of(weight: torch.Tensor) -> torch.Tensor:
    """The zero points of a weight, likewise."""
    if weight.qscheme() in PER_TENSOR:
        return torch.tensor(weight.q_zero_point())
    return weight.q_per_channel_zero_points()


def stored_bias(g: Builder, x: Value, weight: torch.Tensor, bias: torch.Tensor | None) -> Value | None:
    """The bias in 32 bits with the scale of the products, as torch's kernels have it."""
    if bias is None:
        return None
    of_input, of_weight = scale_of(x), scales_of(weight)
    if of_input is None or of_input[0].data is None or of_weight.numel() not in (1, bias.numel()):
        return g.constant(bias.detach())
    scale = (of_input[0].data * of_weight).float()
    whole = (bias.detach().double() / scale.double()).round().to(torch.int32)
    return dequantized(g, g.constant(whole), Grid(g.constant(scale), None, 0, 0, None if scale.dim() == 0 else 0))
