"""Real quantization, as PT2E spells it: from floats to whole numbers and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.quantization.grid import INT32, WIDTHS, Grid, dequantized, quantized, rounded_steps, takes_int32


def _limit(g: Builder, bound: int | Value) -> int:
    if isinstance(bound, int):
        return bound
    if bound.data is None:
        g.unsupported("the range of quantized numbers must be known when the model is exported")
    return int(bound.data)


@converter("quantized_decomposed::quantize_per_tensor")
def quantize_per_tensor(
    g: Builder,
    input: Value,
    scale: Operand,
    zero_point: Operand,
    quant_min: int | Value,
    quant_max: int | Value,
    dtype: torch.dtype,
) -> Value:
    """quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""  # noqa: E501
    return _quantize(g, input, Grid(scale, zero_point, _limit(g, quant_min), _limit(g, quant_max)), dtype)


@converter("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(
    g: Builder,
    input: Value,
    scales: Value,
    zero_points: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Value:
    """quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""  # noqa: E501
    return _quantize(g, input, Grid(scales, zero_points, quant_min, quant_max, axis), dtype)


def _quantize(g: Builder, x: Value, grid: Grid, dtype: torch.dtype) -> Value:
    if grid.zero_is_float:
        g.unsupported("a zero point that is not a whole number")
    source = g.cast(x, torch.float32)
    if grid.is_linear(g, dtype):
        return quantized(g, source, grid, dtype)
    steps = rounded_steps(g, source, grid)
    if grid.one_zero == 0:
        return g.cast(steps, dtype)
    return g.cast(g.op("Add", steps, grid.spread(g, grid.zero, x.rank)), dtype)


@converter("quantized_decomposed::dequantize_per_tensor")
def dequantize_per_tensor(g: Builder, input: Value, scale: Operand, zero_point: Operand, **options: Any) -> Value:
    """quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    return _dequantize(g, input, Grid(scale, zero_point, *_range(input)))


@converter("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    g: Builder, input: Value, scales: Value, zero_points: Value | None, axis: int, **options: Any
) -> Value:
    """quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    return _dequantize(g, input, Grid(scales, zero_points, *_range(input), axis))


def _range(x: Value) -> tuple[int, int]:
    """Whole numbers are taken as they are, wherever in the range of their type."""
    return WIDTHS.get(x.dtype, INT32)


def _dequantize(g: Builder, x: Value, grid: Grid) -> Value:
    if x.dtype == torch.int32 and takes_int32(g, grid) and g.outputs[0].dtype == torch.float32:
        return dequantized(g, x, replace(grid, zero=None))
    if grid.is_linear(g, x.dtype) and g.outputs[0].dtype == torch.float32:
        return dequantized(g, x, grid)
    steps = g.cast(x, torch.float32)
    if grid.one_zero != 0:
        steps = g.op("Sub", steps, grid.spread(g, grid.zero, x.rank))
    return g.op("Mul", steps, grid.spread(g, grid.scale, x.rank))
