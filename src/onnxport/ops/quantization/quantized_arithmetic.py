"""Sums, products and concatenations of quantized tensors, as torch.ao's QFunctional calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from onnxport.lower.builder import Builder
from onnxport.lower.quantized import integers_of, scale_of
from onnxport.lower.registry import entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.quantization.grid import Grid, dequantized
from onnxport.ops.quantization.quantized_tensors import RANGES, known_number, rounded


def _of_tensors(
    g: Builder, qa: Value, qb: Value, scale: Operand, zero_point: Operand, *, op: str, relu: bool = False
) -> Value:
    """quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc"""
    y = g.op(op, qa, qb)
    return rounded(g, g.op("Relu", y) if relu else y, scale, zero_point)


def _sum_with_number(g: Builder, qa: Value, b: Operand, *, relu: bool = False) -> Value:
    """quantized::add_scalar(Tensor qa, Scalar b) -> Tensor qc

    The number is rounded to whole steps of the tensor's scale.
    """
    steps = round(known_number(g, b) / _parameters(g, qa)[0])
    return _with_number(g, qa, b, torch.ops.quantized.add_scalar, lambda scale: g.op("Add", qa, steps * scale), relu)


def _product_with_number(g: Builder, qa: Value, b: Operand, *, relu: bool = False) -> Value:
    """quantized::mul_scalar(Tensor qa, Scalar b) -> Tensor qc"""
    number = known_number(g, b)
    return _with_number(g, qa, b, torch.ops.quantized.mul_scalar, lambda scale: g.op("Mul", qa, number), relu)


def _with_number(
    g: Builder,
    qa: Value,
    b: Operand,
    function: Callable[[torch.Tensor, float], torch.Tensor],
    floats: Callable[[float], Value],
    relu: bool,
) -> Value:
    """A function of a quantized tensor and a number, with the scale and zero point that torch gives the result.

    Where the function leaves each integer as it is, that is all that changes.
    """
    (scale, zero), integers = _parameters(g, qa), integers_of(qa)
    _, low, high = RANGES[g.outputs[0].dtype]
    each = torch.arange(low, high + 1)
    before = torch.quantize_per_tensor((each - zero) * scale, scale, zero, g.outputs[0].dtype)
    after = function(before, known_number(g, b))
    if integers is not None and not relu and torch.equal(after.int_repr(), before.int_repr()):
        return dequantized(g, integers, Grid(after.q_scale(), after.q_zero_point(), low, high))
    y = floats(scale)
    return rounded(g, g.op("Relu", y) if relu else y, after.q_scale(), after.q_zero_point())


def _parameters(g: Builder, x: Value) -> tuple[float, int]:
    """The scale and zero point of a quantized tensor."""
    found = scale_of(x)
    if found is None:
        g.unsupported("a quantized tensor whose scale is not one number")
    return known_number(g, found[0]), int(known_number(g, found[1]))


TENSORS = entries(
    lambda op, relu: partial(_of_tensors, op=op, relu=relu),
    {
        "quantized::add": ("Add", False),
        "quantized::add_relu": ("Add", True),
        "quantized::mul": ("Mul", False),
        "quantized::mul_relu": ("Mul", True),
        "quantized::matmul": ("MatMul", False),
    },
)
NUMBERS = entries(
    lambda function, relu: partial(function, relu=relu),
    {
        f"quantized::{operator}": (function, "relu" in operator)
        for short, function in (("add", _sum_with_number), ("mul", _product_with_number))
        for operator in (
            *(f"{short}_scalar{suffix}{overload}" for suffix in ("", "_relu") for overload in ("", ".Tensor")),
            *(f"{short}{suffix}.{overload}" for suffix in ("", "_relu") for overload in ("Scalar", "Scalar2")),
        )
    },
)


def _cat(
    g: Builder, qx: Sequence[Value], dim: int, scale: Operand | None, zero_point: Operand | None, *, relu: bool
) -> Value:
    """quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor"""
    y = g.op("Concat", *qx, axis=dim % qx[0].rank)
    own = _parameters(g, qx[0])
    y = g.op("Relu", y) if relu else y
    return rounded(g, y, own[0] if scale is None else scale, own[1] if zero_point is None else zero_point)


CONCATENATIONS = entries(lambda relu: partial(_cat, relu=relu), {"quantized::cat": False, "quantized::cat_relu": True})
