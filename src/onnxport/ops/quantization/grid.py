"""What numbers are rounded to when they are quantized, and the ONNX nodes that do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.quantized import quantized_by
from onnxport.lower.value import Operand, Value

FIRST_LINEAR = 10
FIRST_LINEAR_BY_CHANNEL = 13
FIRST_INTEGER_CLIP = 12
FIRST_OTHER_WIDTHS = 21
FIRST_ROUND = 11
# Added to a float32 of at most 22 bits, it leaves no place for a fraction.
NO_FRACTIONS = 1.5 * 2**23

# The element types of QuantizeLinear with the numbers they hold, the smallest first.
WIDTHS: dict[torch.dtype, tuple[int, int]] = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.uint16: (0, 2**16 - 1),
    torch.int16: (-(2**15), 2**15 - 1),
}
BYTES = (torch.uint8, torch.int8)
INT32 = (-(2**31), 2**31 - 1)


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

    def stored_as(self, g: Builder) -> torch.dtype | None:
        """The smallest element type that holds the range and that QuantizeLinear gives; None if there is none.

        What fits 4 bits is in bytes, of which integer kernels are made; the optimiser stores constants in 4 bits.
        QuantizeLinear divides by the scale where torch multiplies by its inverse, which differs for some in a million
        elements, halfway between two steps.
        """
        return next((dtype for dtype in WIDTHS if self._fits(dtype) and self.is_linear(g, dtype)), None)

    def _fits(self, dtype: torch.dtype) -> bool:
        low, high = WIDTHS[dtype]
        return low <= self.low and self.high <= high

    def is_linear(self, g: Builder, dtype: torch.dtype) -> bool:
        """Whether QuantizeLinear and DequantizeLinear say it in numbers of this type."""
        if dtype not in WIDTHS or not self._zero_fits(dtype):
            return False
        first = FIRST_LINEAR if self.axis is None else FIRST_LINEAR_BY_CHANNEL
        first = max(first, FIRST_OTHER_WIDTHS if dtype not in BYTES else first)
        return g.opset >= max(first, FIRST_INTEGER_CLIP if self._is_narrower(dtype) else first)

    def _is_narrower(self, dtype: torch.dtype) -> bool:
        return (self.low, self.high) != WIDTHS[dtype]

    def _zero_fits(self, dtype: torch.dtype) -> bool:
        low, high = WIDTHS[dtype]
        content = self.zero.data if isinstance(self.zero, Value) else torch.tensor(self.zero or 0)
        known = content is None or bool((content >= low).all() and (content <= high).all())
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
        content = parameter.data.reshape(list(shape))
        return g.constant(content.to(dtype))
    size = (parameter.shape or (1,))[0]
    return g.cast(emit.reshape(g, parameter, [size if at == -1 else at for at in shape]), dtype)


def quantized(g: Builder, x: Value, grid: Grid, dtype: torch.dtype) -> Value:
    """QuantizeLinear, kept in the range if that is smaller than the type's."""
    steps = g.op("QuantizeLinear", x, *grid.linear(g, dtype), axis=grid.axis)
    steps = g.typed(steps, dtype, x.shape)
    steps = steps if WIDTHS[dtype] == (grid.low, grid.high) else emit.clip(g, steps, grid.low, grid.high)
    return quantized_by(steps, g.outputs[0])


def dequantized(g: Builder, steps: Value, grid: Grid) -> Value:
    """DequantizeLinear."""
    result = g.op("DequantizeLinear", steps, *grid.linear(g, steps.dtype), axis=grid.axis)
    return g.typed(result, torch.float32, steps.shape)


def scaled(g: Builder, x: Value, grid: Grid) -> Value:
    """The number of steps, with a fraction, from the zero point."""
    scale = grid.scale
    if not isinstance(scale, Value):
        return g.op("Mul", x, 1.0 / scale)
    if scale.data is not None:
        return g.op("Mul", x, g.cast(grid.spread(g, g.constant(1 / scale.data.float()), x.rank), x.dtype))
    return g.op("Mul", x, g.cast(g.op("Reciprocal", grid.spread(g, scale, x.rank)), x.dtype))


def rounded_steps(g: Builder, x: Value, grid: Grid) -> Value:
    """How many steps an element is from the zero point: bounded, then rounded to the nearest, ties to even."""
    count = scaled(g, x, grid)
    if grid.zero_is_float:
        zero = g.cast(grid.spread(g, grid.zero, x.rank), x.dtype)
        places = to_even(g, emit.clip(g, g.op("Add", count, zero), float(grid.low), float(grid.high)))
        return g.op("Sub", places, zero)
    if grid.one_zero is not None:
        return to_even(g, emit.clip(g, count, float(grid.low - grid.one_zero), float(grid.high - grid.one_zero)))
    zero = g.cast(grid.spread(g, grid.zero, x.rank), x.dtype)
    low, high = (g.op("Sub", g.constant(float(bound), x.dtype), zero) for bound in (grid.low, grid.high))
    return to_even(g, emit.clip(g, count, low, high))


def to_even(g: Builder, x: Value) -> Value:
    """Rounded to the nearest whole number, ties to even."""
    if g.opset >= FIRST_ROUND:
        return g.op("Round", x)
    shift = NO_FRACTIONS if x.dtype == torch.float32 else NO_FRACTIONS * 2**29
    return g.op("Sub", g.op("Add", x, shift), shift)


def nearest(g: Builder, x: Value, grid: Grid) -> Value:
    """The nearest number of the grid."""
    source = g.cast(x, wide(x.dtype))
    if source.dtype == torch.float32:
        early = _in_bytes(g, x, grid)
        if early is not None:
            return g.cast(early, x.dtype)
        whole = _whole(g, x, grid)
        if whole is not None:
            return g.cast(dequantized(g, whole, replace(grid, zero=None)), x.dtype)
        dtype = grid.stored_as(g)
        if dtype is not None:
            return g.cast(dequantized(g, quantized(g, source, grid, dtype), grid), x.dtype)
    # With one scale torch goes back in single precision whatever the input's is.
    steps = g.cast(rounded_steps(g, source, grid), torch.float32 if grid.axis is None else source.dtype)
    scale = g.cast(grid.spread(g, grid.scale, x.rank), steps.dtype)
    return g.cast(g.op("Mul", steps, scale), x.dtype)


def takes_int32(g: Builder, grid: Grid) -> bool:
    """Whether DequantizeLinear takes whole numbers of 32 bits, as biases are. QuantizeLinear does not give them."""
    return grid.one_zero == 0 and g.opset >= (FIRST_LINEAR if grid.axis is None else FIRST_LINEAR_BY_CHANNEL)


def _whole(g: Builder, x: Value, grid: Grid) -> Value | None:
    """A constant in whole numbers of 32 bits, where the range says so."""
    if (grid.low, grid.high) != INT32 or not takes_int32(g, grid):
        return None
    return _stored(g, x, grid, torch.int32)


def _stored(g: Builder, x: Value, grid: Grid, dtype: torch.dtype) -> Value | None:
    """The integers of a constant, without those of zero points."""
    scale = grid.scale.data if isinstance(grid.scale, Value) else torch.tensor(grid.scale)
    if x.data is None or scale is None:
        return None
    shape = [] if grid.axis is None else [-1 if i == grid.axis % x.rank else 1 for i in range(x.rank)]
    steps = (x.data.float() * (1 / scale.float()).reshape(shape)).double()
    whole = steps.round().clamp(grid.low, grid.high).to(dtype)
    if g.is_constant(x) or x.ir is None:
        return g.constant(whole)
    return g.initializer(g.context.unique(f"{x.ir.name}_quantized"), whole)


def _in_bytes(g: Builder, x: Value, grid: Grid) -> Value | None:
    """A constant as int8 where QuantizeLinear does not say it: the opset has no scales for channels, or no Clip.

    The scales of channels are a product behind DequantizeLinear. As a constant in float, ONNX Runtime would round the
    weight once more, with a scale of its own.
    """
    narrow = WIDTHS[torch.int8][0] <= grid.low and grid.high <= WIDTHS[torch.int8][1]
    if grid.one_zero != 0 or not narrow or not FIRST_LINEAR <= g.opset < FIRST_LINEAR_BY_CHANNEL:
        return None
    if grid.is_linear(g, torch.int8):
        return None
    whole = _stored(g, x, grid, torch.int8)
    if whole is None:
        return None
    if grid.axis is None:
        return dequantized(g, whole, replace(grid, zero=None))
    ones = dequantized(g, whole, Grid(1.0, None, grid.low, grid.high))
    return g.op("Mul", ones, grid.spread(g, grid.scale, x.rank))
