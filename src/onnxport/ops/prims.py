"""``prims`` operators that are not a single ATen operator; the others are converted as their ATen counterparts."""

from __future__ import annotations

from typing import Any

from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.reduction.reduction import reduce


@converter("prims::broadcast_in_dim")
def broadcast_in_dim(g: Builder, a: Value, shape: list[AnySize], broadcast_dimensions: list[int]) -> Value:
    """prims::broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)"""
    added = [axis for axis in range(len(shape)) if axis not in broadcast_dimensions]
    return emit.expand(g, emit.unsqueeze(g, a, added), g.outputs[0].shape)


@converter("prims::split_dim")
def split_dim(g: Builder, a: Value, dim: int, outer_length: AnySize) -> Value:
    """prims::split_dim(Tensor(a) a, int dim, SymInt outer_length) -> Tensor(a)"""
    return emit.reshape(g, a, g.outputs[0].shape)


@converter("prims::prod")
def prod(g: Builder, inp: Value, dims: list[int] | None, output_dtype: Any = None) -> Value:
    """prims::prod(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"""
    return reduce(g, "ReduceProd", g.cast(inp, g.outputs[0].dtype), dims, keepdim=False)


@converter("prims::cbrt")
def cbrt(g: Builder, self: Value) -> Value:
    """prims::cbrt(Tensor self) -> Tensor"""
    return g.op("Mul", g.op("Sign", self), g.op("Pow", g.op("Abs", self), 1 / 3))


@converter("prims::iota")
def iota(
    g: Builder, length: AnySize, start: AnySize, step: AnySize, dtype: Any, device: object, requires_grad: bool
) -> Value:
    """prims::iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""  # noqa: E501
    steps = g.op("Mul", emit.counting(g, length), sizes.scalar(g, step))
    return g.cast(g.op("Add", steps, sizes.scalar(g, start)), dtype)
