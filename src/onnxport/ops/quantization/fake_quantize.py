"""Fake quantization: floats rounded as if they had been quantized."""

from __future__ import annotations

from typing import Any

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.quantization.grid import Grid, nearest, scaled, to_even


def _is_within(g: Builder, x: Value, grid: Grid) -> Value:
    """Whether an element is in the grid's range when it is rounded."""
    source = g.cast(x, wide(x.dtype))
    zero = g.cast(grid.spread(g, grid.zero, x.rank), source.dtype)
    count = scaled(g, source, grid)
    if grid.zero_is_float:
        place = g.op("Round", g.op("Add", count, zero))
    else:
        place = g.op("Add", g.op("Round", count), zero)
    low, high = float(grid.low), float(grid.high)
    return g.op("And", emit.greater_or_equal(g, place, low), emit.less_or_equal(g, place, high))


def _single(g: Builder, scale: Operand) -> Operand:
    """torch's kernels take the inverse of a scale in single precision."""
    return scale if isinstance(scale, Value) else g.constant(scale, torch.float32)


@converter("aten::fake_quantize_per_tensor_affine")
def fake_quantize_per_tensor(
    g: Builder, self: Value, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
) -> Value:
    """aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor"""  # noqa: E501
    return nearest(g, self, Grid(_single(g, scale), zero_point, quant_min, quant_max))


@converter("aten::fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    g: Builder, self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor"""  # noqa: E501
    return nearest(g, self, Grid(scale, zero_point, quant_min, quant_max, axis))


@converter("aten::fake_quantize_per_tensor_affine_cachemask", "aten::fake_quantize_per_channel_affine_cachemask")
def fake_quantize_with_mask(
    g: Builder,
    self: Value,
    scale: Operand,
    zero_point: Operand,
    quant_min: int,
    quant_max: int,
    axis: int | None = None,
) -> tuple[Value, Value]:
    """aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""  # noqa: E501
    return _with_mask(g, self, Grid(_single(g, scale), zero_point, quant_min, quant_max, axis))


def _with_mask(g: Builder, x: Value, grid: Grid) -> tuple[Value, Value]:
    result = nearest(g, x, grid)
    read = g.outputs[1] in g.context.read
    return result, _is_within(g, x, grid) if read else emit.filled(g, x.shape or (), True, torch.bool)


@converter("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_switched(
    g: Builder,
    self: Value,
    scale: Value,
    zero_point: Value,
    fake_quant_enabled: Value,
    quant_min: int,
    quant_max: int,
) -> tuple[Value, Value]:
    """aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""  # noqa: E501
    result, mask = _with_mask(g, self, Grid(scale, zero_point, quant_min, quant_max))
    if fake_quant_enabled.data is None:
        off = emit.equal(g, emit.reshape(g, fake_quant_enabled, []), 0)
        return emit.where(g, off, self, result), g.op("Or", off, mask)
    if bool(fake_quant_enabled.data.any()):
        return result, mask
    return self, emit.filled(g, self.shape or (), True, torch.bool)


@converter("aten::_fake_quantize_learnable_per_tensor_affine", "aten::_fake_quantize_learnable_per_channel_affine")
def fake_quantize_learned(
    g: Builder,
    self: Value,
    scale: Value,
    zero_point: Value,
    quant_min: int,
    quant_max: int,
    axis: int | None = None,
    grad_factor: float = 1.0,
) -> Value:
    """aten::_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> Tensor"""  # noqa: E501
    if zero_point.data is not None:
        zero = g.constant(zero_point.data.round().clamp(quant_min, quant_max).to(torch.int32))
    else:
        zero = g.cast(emit.clip(g, to_even(g, zero_point), float(quant_min), float(quant_max)), torch.int32)
    return nearest(g, self, Grid(scale, zero, quant_min, quant_max, axis))


@converter("aten::_fused_moving_avg_obs_fq_helper_functional")
def fused_observer(
    g: Builder,
    self: Value,
    observer_on: Value,
    fake_quant_on: Value,
    running_min: Value,
    running_max: Value,
    scale: Value,
    zero_point: Value,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    **options: Any,
) -> tuple[Value, ...]:
    """aten::_fused_moving_avg_obs_fq_helper_functional(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor running_min, Tensor running_max, Tensor scale, Tensor zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor output, Tensor mask, Tensor running_min_out, Tensor running_max_out, Tensor scale_out, Tensor zero_point_out)"""  # noqa: E501
    if observer_on.data is None or bool(observer_on.data.any()):
        g.unsupported("an observer that is on changes with what it sees; turn it off with disable_observer()")
    if fake_quant_on.data is None:
        g.unsupported("whether values are quantized must be known when the model is exported")
    grid = Grid(scale, zero_point, quant_min, quant_max, ch_axis if per_row_fake_quant else None)
    if bool(fake_quant_on.data.any()):
        result, mask = _with_mask(g, self, grid)
    else:
        result, mask = self, emit.filled(g, self.shape or (), True, torch.bool)
    return result, mask, running_min, running_max, scale, zero_point
