"""From floats to quantized tensors and back.

A quantized tensor is the floats that it stands for: what gives one ends in QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

import torch

from onnxport.lower.builder import Builder
from onnxport.lower.quantized import FIRST_BY_CHANNEL, integers_of
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.quantization.grid import Grid, dequantized, quantized

RANGES = {torch.quint8: (torch.uint8, 0, 255), torch.qint8: (torch.int8, -128, 127)}


def known_number(g: Builder, parameter: Operand) -> float:
    """A scale, zero point or operand that has to be known when the model is exported."""
    if not isinstance(parameter, Value):
        return parameter
    content = g.realise(parameter).data
    if content is None:
        g.unsupported("a scale, zero point or number that is computed when the model runs")
    return content.item()


def rounded(g: Builder, x: Value, scale: Operand, zero: Operand, dtype: torch.dtype | None = None) -> Value:
    """The floats that a quantized tensor stands for; of the dtype of the node's result, if no other is given."""
    dtype = g.outputs[0].dtype if dtype is None else dtype
    if dtype not in RANGES:
        g.unsupported(f"quantized tensors of {dtype}")
    stored, low, high = RANGES[dtype]
    single = g.constant(float(known_number(g, scale)), torch.float32)
    grid = Grid(single, g.constant(int(known_number(g, zero)), torch.int32), low, high)
    if not grid.is_linear(g, stored):
        g.require(10, "QuantizeLinear")
    return dequantized(g, quantized(g, x, grid, stored), grid)


@converter("aten::quantize_per_tensor")
def quantize_per_tensor(g: Builder, self: Value, scale: Operand, zero_point: Operand, dtype: torch.dtype) -> Value:
    """aten::quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor"""
    return rounded(g, self, scale, zero_point, dtype)


@converter("aten::quantize_per_channel")
def quantize_per_channel(
    g: Builder, self: Value, scales: Value, zero_points: Value, axis: int, dtype: torch.dtype
) -> Value:
    """aten::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> Tensor"""  # noqa: E501
    if dtype not in RANGES or zero_points.is_float:
        g.unsupported(f"quantized tensors of {dtype}")
    g.require(FIRST_BY_CHANNEL, "a scale for each channel")
    stored, low, high = RANGES[dtype]
    grid = Grid(scales, zero_points, low, high, axis)
    return dequantized(g, quantized(g, self, grid, stored), grid)


@converter("aten::dequantize")
def dequantize(g: Builder, self: Value) -> Value:
    """aten::dequantize.self(Tensor self) -> Tensor"""
    return g.op("Identity", self)


@converter("aten::int_repr")
def int_repr(g: Builder, self: Value) -> Value:
    """aten::int_repr(Tensor self) -> Tensor"""
    integers = integers_of(self)
    if integers is None:
        g.unsupported("the integers of a tensor that has a scale for each channel")
    return g.op("Identity", integers)
