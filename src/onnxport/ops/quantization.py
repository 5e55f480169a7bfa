"""Quantization: whole numbers in place of floats, and floats rounded as if they had been such numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value

BYTES = {(-128, 127): torch.int8, (0, 255): torch.uint8}
FIRST_LINEAR = 10
FIRST_LINEAR_BY_CHANNEL = 13
FIRST_ROUND = 11
# Added to a float32 of at most 22 bits, it leaves no place for a fraction.
NO_FRACTIONS = 1.5 * 2**23


@dataclass(frozen=True)
class Grid:
    """What numbers are rounded to: whole steps of a scale, from low to high when counted from the zero point.

    With an axis, scale and zero point are vectors along it.
    """

    scale: Operand
    zero: Operand | None
    low: int
    high: int
    axis: int | None = None

    def is_linear(self, g: Builder, dtype: torch.dtype) -> bool:
        """Whether QuantizeLinear and DequantizeLinear say it. They divide by the scale where torch multiplies by its
        inverse, which differs for some in a million elements, halfway between two steps.
        """
        first = FIRST_LINEAR if self.axis is None else FIRST_LINEAR_BY_CHANNEL
        return g.opset >= first and dtype in BYTES.values() and self._zero_fits(dtype)

    def _zero_fits(self, dtype: torch.dtype) -> bool:
        limits = torch.iinfo(dtype)
        content = self.zero.data if isinstance(self.zero, Value) else torch.tensor(self.zero or 0)
        known = content is None or bool((content >= limits.min).all() and (content <= limits.max).all())
        return known and not self.zero_is_float

    @property
    def zero_is_float(self) -> bool:
        return isinstance(self.zero, Value) and self.zero.is_float

    @property
    def one_zero(self) -> int | None:
        """The zero point, if it is one number that is known now."""
        if not isinstance(self.zero, Value):
            return int(self.zero or 0)
        content = None if self.zero_is_float else self.zero.data
        if content is None or content.numel() == 0 or not bool((content == content.flatten()[0]).all()):
            return None
        return int(content.flatten()[0])

    def linear(self, g: Builder, dtype: torch.dtype) -> tuple[Value, Value | None]:
        """Scale and zero point as QuantizeLinear takes them; where there is none, it is 0."""
        shape = [] if self.axis is None else [-1]
        zero = None if self.zero is None else _parameter(g, self.zero, dtype, shape)
        return _parameter(g, self.scale, torch.float32, shape), zero

    def spread(self, g: Builder, parameter: Operand | None, rank: int) -> Value:
        """A parameter in single precision, in a shape that the tensor's broadcasts with."""
        shape = [] if self.axis is None else [-1 if i == self.axis % rank else 1 for i in range(rank)]
        return _parameter(g, 0 if parameter is None else parameter, torch.float32, shape)


def _parameter(g: Builder, parameter: Operand, dtype: torch.dtype, shape: Sequence[int]) -> Value:
    """A constant where the content is known, since runtimes look for one."""
    if not isinstance(parameter, Value):
        return g.constant(parameter, dtype)
    if parameter.data is not None:
        return g.constant(parameter.data.to(dtype).reshape(list(shape)))
    size = (parameter.shape or (1,))[0]
    return g.cast(emit.reshape(g, parameter, [size if at == -1 else at for at in shape]), dtype)


def _quantized(g: Builder, x: Value, grid: Grid, dtype: torch.dtype) -> Value:
    """QuantizeLinear, kept in the range if that is smaller than the type's."""
    steps = g.op("QuantizeLinear", x, *grid.linear(g, dtype), axis=grid.axis)
    steps = g.typed(steps, dtype, x.shape)
    return steps if BYTES.get((grid.low, grid.high)) == dtype else emit.clip(g, steps, grid.low, grid.high)


def _dequantized(g: Builder, steps: Value, grid: Grid) -> Value:
    result = g.op("DequantizeLinear", steps, *grid.linear(g, steps.dtype), axis=grid.axis)
    return g.typed(result, torch.float32, steps.shape)


def _scaled(g: Builder, x: Value, grid: Grid) -> Value:
    """The number of steps, with a fraction, from the zero point."""
    scale = grid.scale
    if not isinstance(scale, Value):
        return g.op("Mul", x, 1.0 / scale)
    if scale.data is not None:
        return g.op("Mul", x, g.cast(grid.spread(g, g.constant(1 / scale.data.float()), x.rank), x.dtype))
    return g.op("Mul", x, g.cast(g.op("Reciprocal", grid.spread(g, scale, x.rank)), x.dtype))


def _steps(g: Builder, x: Value, grid: Grid) -> Value:
    """How many steps an element is from the zero point: bounded, then rounded to the nearest, ties to even."""
    count = _scaled(g, x, grid)
    if grid.zero_is_float:
        zero = g.cast(grid.spread(g, grid.zero, x.rank), x.dtype)
        places = _to_even(g, emit.clip(g, g.op("Add", count, zero), float(grid.low), float(grid.high)))
        return g.op("Sub", places, zero)
    if grid.one_zero is not None:
        return _to_even(g, emit.clip(g, count, float(grid.low - grid.one_zero), float(grid.high - grid.one_zero)))
    zero = g.cast(grid.spread(g, grid.zero, x.rank), x.dtype)
    low, high = (g.op("Sub", g.constant(float(bound), x.dtype), zero) for bound in (grid.low, grid.high))
    return _to_even(g, emit.clip(g, count, low, high))


def _to_even(g: Builder, x: Value) -> Value:
    if g.opset >= FIRST_ROUND:
        return g.op("Round", x)
    shift = NO_FRACTIONS if x.dtype == torch.float32 else NO_FRACTIONS * 2**29
    return g.op("Sub", g.op("Add", x, shift), shift)


def _fake(g: Builder, x: Value, grid: Grid) -> Value:
    """The nearest number of the grid."""
    source, byte = g.cast(x, wide(x.dtype)), BYTES.get((grid.low, grid.high))
    if byte is not None and source.dtype == torch.float32 and grid.is_linear(g, byte):
        return g.cast(_dequantized(g, _quantized(g, source, grid, byte), grid), x.dtype)
    # With one scale torch goes back in single precision whatever the input's is.
    steps = g.cast(_steps(g, source, grid), torch.float32 if grid.axis is None else source.dtype)
    scale = g.cast(grid.spread(g, grid.scale, x.rank), steps.dtype)
    return g.cast(g.op("Mul", steps, scale), x.dtype)


def _is_within(g: Builder, x: Value, grid: Grid) -> Value:
    """Whether an element is in the grid's range when it is rounded."""
    source = g.cast(x, wide(x.dtype))
    zero = g.cast(grid.spread(g, grid.zero, x.rank), source.dtype)
    count = _scaled(g, source, grid)
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
    return _fake(g, self, Grid(_single(g, scale), zero_point, quant_min, quant_max))


@converter("aten::fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    g: Builder, self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor"""  # noqa: E501
    return _fake(g, self, Grid(scale, zero_point, quant_min, quant_max, axis))


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
    result = _fake(g, x, grid)
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
        zero = g.cast(emit.clip(g, _to_even(g, zero_point), float(quant_min), float(quant_max)), torch.int32)
    return _fake(g, self, Grid(scale, zero, quant_min, quant_max, axis))


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
        return _quantized(g, source, grid, dtype)
    steps = _steps(g, source, grid)
    if grid.one_zero == 0:
        return g.cast(steps, dtype)
    return g.cast(g.op("Add", steps, grid.spread(g, grid.zero, x.rank)), dtype)


@converter("quantized_decomposed::dequantize_per_tensor")
def dequantize_per_tensor(g: Builder, input: Value, scale: Operand, zero_point: Operand, **options: Any) -> Value:
    """quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    return _dequantize(g, input, Grid(scale, zero_point, 0, 0))


@converter("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    g: Builder, input: Value, scales: Value, zero_points: Value | None, axis: int, **options: Any
) -> Value:
    """quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    return _dequantize(g, input, Grid(scales, zero_points, 0, 0, axis))


def _dequantize(g: Builder, x: Value, grid: Grid) -> Value:
    if grid.is_linear(g, x.dtype) and g.outputs[0].dtype == torch.float32:
        return _dequantized(g, x, grid)
    steps = g.cast(x, torch.float32)
    if grid.one_zero != 0:
        steps = g.op("Sub", steps, grid.spread(g, grid.zero, x.rank))
    return g.op("Mul", steps, grid.spread(g, grid.scale, x.rank))
