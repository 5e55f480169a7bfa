"""Dynamic quantization: inputs are quantized with the range that they have when the model runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.quantized import quantized_by
from onnxport.lower.registry import entries
from onnxport.lower.value import Value

FIRST_DYNAMIC = 11
MOST, MOST_REDUCED = 255, 127


def _quantized_input(g: Builder, x: Value, most: int) -> tuple[Value, Value, Value]:
    """Integers, scale and zero point, as torch chooses them: the range has 0 in it, and all of it is used."""
    low = g.op("Min", emit.reduce(g, "ReduceMin", x, None, keepdims=False), 0.0)
    high = g.op("Max", emit.reduce(g, "ReduceMax", x, None, keepdims=False), 0.0)
    scale = g.op("Max", g.op("Div", g.op("Sub", high, low), float(most)), torch.finfo(torch.float32).eps)
    zero = g.cast(emit.clip(g, g.op("Round", g.op("Neg", g.op("Div", low, scale))), 0.0, float(most)), torch.uint8)
    steps = g.typed(g.op("QuantizeLinear", x, scale, zero), torch.uint8, x.shape)
    steps = steps if most == MOST else emit.clip(g, steps, 0, most)
    return quantized_by(steps, g.outputs[0]), scale, zero


def _linear_dynamic(g: Builder, X: Value, W_prepack: Any, reduce_range: bool = False, *, relu: bool = False) -> Value:
    """quantized::linear_dynamic(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, bool reduce_range=False) -> Tensor Y"""  # noqa: E501
    g.require(FIRST_DYNAMIC, "dynamic quantization")
    weight, bias = W_prepack.unpack()
    if not weight.is_quantized:
        g.unsupported("weights in half precision")
    by_channel = weight.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric)
    scales = weight.q_per_channel_scales().float() if by_channel else torch.tensor(weight.q_scale()).float()
    zeros = weight.q_per_channel_zero_points() if by_channel else torch.tensor(weight.q_zero_point())
    steps, scale, zero = _quantized_input(g, X, MOST_REDUCED if reduce_range else MOST)
    matrix = g.constant(weight.int_repr().t())
    product = g.op("MatMulInteger", steps, matrix, zero, g.constant(zeros.to(torch.int8)) if zeros.any() else None)
    product = g.typed(product, torch.int32, g.outputs[0].shape)
    y = g.op("Mul", g.cast(product, torch.float32), g.op("Mul", scale, g.constant(scales)))
    y = y if bias is None else g.op("Add", y, g.constant(bias.detach()))
    return g.op("Relu", y) if relu else y


LINEAR = entries(
    lambda relu: partial(_linear_dynamic, relu=relu),
    {"quantized::linear_dynamic": False, "quantized::linear_relu_dynamic": True},
)
