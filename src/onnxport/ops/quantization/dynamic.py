"""Dynamic quantization: inputs are quantized with the range that they have when the model runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.quantized import quantized_by
from onnxport.lower.registry import converter, entries
from onnxport.lower.value import Value
from onnxport.ops.quantization.packed_weights import scales_of, unpacked, zeros_of

FIRST_DYNAMIC = 11
MOST, MOST_REDUCED = 255, 127


def _quantized_input(g: Builder, x: Value, most: int) -> tuple[Value, Value, Value]:
    """Integers, scale and zero point, as torch chooses them: the range has 0 in it, and all of it is used."""
    low, high = _range_with_zero(g, x)
    scale = g.op("Max", g.op("Div", g.op("Sub", high, low), float(most)), torch.finfo(torch.float32).eps)
    zero = g.cast(emit.clip(g, g.op("Round", g.op("Neg", g.op("Div", low, scale))), 0.0, float(most)), torch.uint8)
    steps = g.typed(g.op("QuantizeLinear", x, scale, zero), torch.uint8, x.shape)
    steps = steps if most == MOST else emit.clip(g, steps, 0, most)
    return quantized_by(steps, g.outputs[0]), scale, zero


def integer_product(g: Builder, x: Value, weight: torch.Tensor, *, reduce_range: bool) -> Value:
    """The product of a tensor and a quantized weight, transposed, in integers. torch's ``reduce_range`` is 7 bits."""
    g.require(FIRST_DYNAMIC, "dynamic quantization")
    zeros = zeros_of(weight)
    steps, scale, zero = _quantized_input(g, x, MOST_REDUCED if reduce_range else MOST)
    matrix = g.constant(weight.int_repr().t())
    product = g.op("MatMulInteger", steps, matrix, zero, g.constant(zeros.to(torch.int8)) if zeros.any() else None)
    assert x.shape is not None
    product = g.typed(product, torch.int32, (*x.shape[:-1], weight.shape[0]))
    return g.op("Mul", g.cast(product, torch.float32), g.op("Mul", scale, g.constant(scales_of(weight))))


@converter("quantized_decomposed::choose_qparams")
def choose_qparams(
    g: Builder, input: Value, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Value, Value]:
    """quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""  # noqa: E501
    low, high = _range_with_zero(g, input)
    scale = g.op("Max", g.op("Div", g.op("Sub", high, low), float(quant_max - quant_min)), eps)
    steps = g.op("Round", g.op("Div", low, scale))
    zero = emit.clip(g, g.op("Sub", float(quant_min), steps), float(quant_min), float(quant_max))
    return _parameters(g, scale, zero)


@converter("quantized_decomposed::choose_qparams_symmetric")
def choose_qparams_symmetric(
    g: Builder, input: Value, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Value, Value]:
    """quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""  # noqa: E501
    low, high = _range_with_zero(g, input)
    reach = g.op("Max", g.op("Neg", low), high)
    scale = g.op("Max", g.op("Div", reach, (quant_max - quant_min) / 2), eps)
    zero = g.constant(128.0 if dtype == torch.uint8 else 0.0, torch.float32)
    return _parameters(g, scale, zero)


def _range_with_zero(g: Builder, x: Value) -> tuple[Value, Value]:
    """The smallest and the largest element, where 0 is in between."""
    g.require(FIRST_DYNAMIC, "dynamic quantization")
    x = g.cast(x, torch.float32)
    low = g.op("Min", emit.reduce(g, "ReduceMin", x, None, keepdims=False), 0.0)
    return low, g.op("Max", emit.reduce(g, "ReduceMax", x, None, keepdims=False), 0.0)


def _parameters(g: Builder, scale: Value, zero: Value) -> tuple[Value, Value]:
    """Scale and zero point as PT2E passes them on: vectors of one element, in double precision and in int64."""
    scale, zero = (emit.reshape(g, parameter, [1]) for parameter in (scale, zero))
    return g.cast(scale, torch.float64), g.cast(zero, torch.int64)


def half_weight(g: Builder, weight: torch.Tensor) -> Value:
    """A weight that is packed in half precision: stored so, and single in the product."""
    return g.cast(g.constant(weight.half()), torch.float32)


def _linear_dynamic(g: Builder, X: Value, W_prepack: Any, reduce_range: bool = False, *, relu: bool = False) -> Value:
    """quantized::linear_dynamic(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, bool reduce_range=False) -> Tensor Y"""  # noqa: E501
    weight, bias = unpacked(W_prepack)
    if weight.is_quantized:
        y = integer_product(g, X, weight, reduce_range=reduce_range)
    else:
        y = g.op("MatMul", X, emit.transpose(g, half_weight(g, weight), [1, 0]))
    y = y if bias is None else g.op("Add", y, g.constant(bias.detach()))
    return g.op("Relu", y) if relu else y


LINEAR = entries(
    lambda relu: partial(_linear_dynamic, relu=relu),
    {
        "quantized::linear_dynamic": False,
        "quantized::linear_relu_dynamic": True,
        "quantized::linear_dynamic_fp16": False,
        "quantized::linear_relu_dynamic_fp16": True,
    },
)
