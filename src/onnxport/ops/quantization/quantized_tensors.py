"""Operators on quantized tensors, as torch.ao's converted models call them.

A quantized tensor is the floats that it stands for: what gives one ends in QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.quantization.grid import Grid, dequantized, quantized

RANGES = {torch.quint8: (torch.uint8, 0, 255), torch.qint8: (torch.int8, -128, 127)}
# The first opset in which weights have a scale for each channel.
FIRST_BY_CHANNEL = 13


def _number(g: Builder, parameter: Operand) -> float:
    """A scale or zero point, which has to be known."""
    if not isinstance(parameter, Value):
        return parameter
    if parameter.data is None:
        g.unsupported("a scale or zero point that is computed when the model runs")
    return parameter.data.item()


def floats(x: Value) -> Value:
    """A quantized tensor as the floats that it is in the graph."""
    return Value(x.ir, torch.float32, x.shape)


def rounded(g: Builder, x: Value, scale: Operand, zero: Operand, dtype: torch.dtype = torch.quint8) -> Value:
    """The floats that a quantized tensor stands for."""
    if dtype not in RANGES:
        g.unsupported(f"quantized tensors of {dtype}")
    stored, low, high = RANGES[dtype]
    single = g.constant(float(_number(g, scale)), torch.float32)
    grid = Grid(single, g.constant(int(_number(g, zero)), torch.int32), low, high)
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


def stored_weight(g: Builder, weight: torch.Tensor, shape: Sequence[int] | None = None) -> Value:
    """The floats of a quantized weight, from its integers, perhaps in another shape."""
    integers = weight.int_repr() if shape is None else weight.int_repr().reshape(tuple(shape))
    if weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        grid = Grid(float(weight.q_scale()), int(weight.q_zero_point()), *RANGES[weight.dtype][1:])
    else:
        g.require(FIRST_BY_CHANNEL, "a scale for each channel")
        scales, zeros = weight.q_per_channel_scales().float(), weight.q_per_channel_zero_points().to(torch.int32)
        axis = weight.q_per_channel_axis()
        grid = Grid(g.constant(scales), g.constant(zeros), *RANGES[weight.dtype][1:], axis)
    return dequantized(g, g.constant(integers), grid)


def _scales(weight: torch.Tensor) -> torch.Tensor:
    if weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return torch.tensor(weight.q_scale(), dtype=torch.float32)
    return weight.q_per_channel_scales().float()


def stored_bias(g: Builder, x: Value, weight: torch.Tensor, bias: torch.Tensor | None) -> Value | None:
    """The bias in 32 bits with the scale of the products, as torch's kernels have it."""
    if bias is None:
        return None
    of_input = _input_scale(x)
    if of_input is None:
        return g.constant(bias.detach())
    scale = (of_input * _scales(weight)).float()
    whole = (bias.detach().double() / scale.double()).round().to(torch.int32)
    axis = None if scale.dim() == 0 else 0
    return dequantized(g, g.constant(whole), Grid(g.constant(scale), None, 0, 0, axis))


def _input_scale(x: Value) -> torch.Tensor | None:
    """The scale of a quantized tensor: of the DequantizeLinear that gives it, or that what moves it reads."""
    value = x.ir
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "DequantizeLinear":
            scale = node.inputs[1]
            content = None if scale is None or scale.const_value is None else scale.const_value.numpy()
            return None if content is None or content.ndim else torch.tensor(content)
        if node.op_type not in ("Flatten", "Reshape", "Transpose", "MaxPool", "Relu", "Identity", "Squeeze"):
            return None
        value = node.inputs[0]
    return None


def unpacked(packed: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight, bias = packed.unpack()
    return weight, bias


def with_relu(function: Callable[..., Value]) -> Callable[[bool], Callable[..., Value]]:
    """Converters of an operator and of that with a ReLU behind."""
    return lambda relu: partial(function, relu=relu)


def _linear(
    g: Builder, X: Value, W_prepack: Any, Y_scale_i: Operand, Y_zero_point_i: Operand, *, relu: bool = False
) -> Value:
    """quantized::linear(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y"""  # noqa: E501
    weight, bias = unpacked(W_prepack)
    y = _product(g, X, stored_weight(g, weight), stored_bias(g, X, weight, bias))
    return rounded(g, g.op("Relu", y) if relu else y, Y_scale_i, Y_zero_point_i)


def _product(g: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    if x.rank == 2 and (bias is not None or g.opset >= 11):
        return g.op("Gemm", x, weight, bias, transB=1)
    product = g.op("MatMul", x, emit.transpose(g, weight, [1, 0]))
    return product if bias is None else g.op("Add", product, bias)


LINEAR = entries(with_relu(_linear), {"quantized::linear": False, "quantized::linear_relu": True})


def _elementwise(
    g: Builder, qa: Value, qb: Value, scale: Operand, zero_point: Operand, *, op: str, relu: bool = False
) -> Value:
    """quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc"""
    y = g.op(op, qa, qb)
    return rounded(g, g.op("Relu", y) if relu else y, scale, zero_point, g.outputs[0].dtype)


SUMS = entries(with_relu(partial(_elementwise, op="Add")), {"quantized::add": False, "quantized::add_relu": True})
PRODUCTS = entries(with_relu(partial(_elementwise, op="Mul")), {"quantized::mul": False, "quantized::mul_relu": True})


@converter("quantized::cat")
def cat(g: Builder, qx: Sequence[Value], dim: int, scale: Operand | None, zero_point: Operand | None) -> Value:
    """quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor"""
    y = g.op("Concat", *qx, axis=dim % qx[0].rank)
    if scale is None or zero_point is None:
        g.unsupported("without a scale of its own")
    return rounded(g, y, scale, zero_point, g.outputs[0].dtype)
