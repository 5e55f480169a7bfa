"""Variance, logic and products along an axis of complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport.graph.sizes import product
from onnxport.lower import complexes, emit
from onnxport.lower.builder import Builder
from onnxport.lower.complexes import Complex, from_parts
from onnxport.lower.registry import Converter, Entry, Kind
from onnxport.lower.value import Operand, Value
from onnxport.ops.complex.complex_arithmetic import Number, added, for_complex, nonzero, times
from onnxport.ops.complex.complex_movement import as_list, outputs_as, real_output


def _spread(real: Converter, g: Builder, self: Complex, **arguments: Any) -> list[Value]:
    """The sum of the variances of the two parts; the mean has the means of the parts."""
    with outputs_as(g, real_output):
        runs = [as_list(real(g, self=part, **arguments)) for part in self.parts(g)]
    found = [run[0] for run in runs]
    if g.origin is not None and g.origin.op.startswith("aten::std"):
        squares = [g.op("Mul", deviation, deviation) for deviation in found]
        total = g.op("Sqrt", g.op("Add", *squares))
    else:
        total = g.op("Add", *found)
    return [total] if len(runs[0]) == 1 else [total, from_parts(g, runs[0][1], runs[1][1])]


def _logic(real: Converter, g: Builder, self: Value, other: Value) -> Value:
    sides = [nonzero(g, x) if isinstance(x, Complex) else g.cast(x, torch.bool) for x in (self, other)]
    return as_list(real(g, self=sides[0], other=sides[1]))[0]


SPREADS = [Entry(("aten::var", "aten::std", "aten::var_mean", "aten::std_mean"), _spread, Kind.BY_PARTS)]
LOGIC = [Entry(("aten::logical_and", "aten::logical_or", "aten::logical_xor"), _logic, Kind.BY_PARTS)]


@for_complex("aten::lerp")
def lerp(g: Builder, self: Complex, end: Complex, weight: Number) -> Complex:
    """aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    return added(g, self, times(g, added(g, end, self, "Sub"), weight))


@for_complex("aten::addcmul")
def addcmul(g: Builder, self: Number, tensor1: Number, tensor2: Number, value: Operand | complex = 1) -> Complex:
    """aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    term = times(g, tensor1, tensor2)
    return added(g, self, term if value == 1 else times(g, term, value))


# Products along an axis


@for_complex("aten::prod")
def prod(g: Builder, self: Complex, dim: int | None = None, keepdim: bool = False, dtype: object = None) -> Complex:
    """aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor

    The first half is multiplied by the second, until one number is left.
    """
    whole = dim is None or not self.rank
    axis = 0 if dim is None or not self.rank else dim % self.rank
    made = _each(g, self, lambda part: emit.reshape(g, part, [product(part.shape or ())])) if whole else self
    count = _count(g, made, axis)
    if count == 0:
        ones = emit.filled(g, g.outputs[0].shape, 1.0, self.real_dtype)
        return from_parts(g, ones, complexes.zeros(g, ones))
    while count > 1:
        half = count // 2
        rest = _cut(g, made, axis, 2 * half, count)
        made = times(g, _cut(g, made, axis, 0, half), _cut(g, made, axis, half, 2 * half))
        made = _behind(g, made, rest, axis) if count % 2 else made
        count -= half
    return made if keepdim and not whole else _each(g, made, lambda part: emit.squeeze(g, part, [axis]))


@for_complex("aten::cumprod")
def cumprod(g: Builder, self: Complex, dim: int, dtype: object = None) -> Complex:
    """aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    In steps of growing width, each number is multiplied by the product of those before it.
    """
    if not self.rank:
        return self
    axis = dim % self.rank
    count = _count(g, self, axis)
    made, step = self, 1
    while step < count:
        later = times(g, _cut(g, made, axis, 0, count - step), _cut(g, made, axis, step, count))
        made = _behind(g, _cut(g, made, axis, 0, step), later, axis)
        step *= 2
    return made


def _count(g: Builder, x: Complex, axis: int) -> int:
    count = (x.shape or ())[axis]
    if not isinstance(count, int):
        g.unsupported("a product of complex numbers along an axis whose size is only known at run time")
    return count


def _each(g: Builder, x: Complex, change: Callable[[Value], Value]) -> Complex:
    return from_parts(g, *(change(part) for part in x.parts(g)))


def _cut(g: Builder, x: Complex, axis: int, start: int, end: int) -> Complex:
    return _each(g, x, lambda part: emit.slice_(g, part, [start], [end], [axis]))


def _behind(g: Builder, x: Complex, y: Complex, axis: int) -> Complex:
    pairs = zip(x.parts(g), y.parts(g), strict=True)
    return from_parts(g, *(g.op("Concat", first, second, axis=axis) for first, second in pairs))
