"""Dropout."""

from __future__ import annotations

import math

import torch

from onnxport.graph.sizes import Shape
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.creation.random import chosen_of_shape

# The limit of selu for large negative numbers: -scale * alpha.
SELU_LIMIT = 1.7580993408473766


@converter("aten::dropout")
def dropout(g: Builder, input: Value, p: float, train: bool) -> Value:
    """aten::dropout(Tensor input, float p, bool train) -> Tensor"""
    if not train or p == 0:
        return input
    return g.op("Mul", input, 0.0) if p == 1 else emit.dropout(g, input, p)[0]


@converter("aten::native_dropout")
def native_dropout(g: Builder, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if train is False or p == 0:
        return input, emit.filled(g, g.outputs[1].shape, True, torch.bool)
    if p == 1:
        return g.op("Mul", input, 0.0), emit.filled(g, g.outputs[1].shape, False, torch.bool)
    return emit.dropout(g, input, p)


@converter("aten::native_dropout_backward")
def native_dropout_backward(g: Builder, grad_output: Value, mask: Value, scale: Operand) -> Value:
    """aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor"""
    dtype = g.outputs[0].dtype
    kept = g.op("Mul", *g.promoted(grad_output, mask, dtype=dtype))
    return g.op("Mul", kept, g.cast(scale, dtype))


@converter("aten::feature_dropout")
def feature_dropout(g: Builder, input: Value, p: float, train: bool) -> Value:
    """aten::feature_dropout(Tensor input, float p, bool train) -> Tensor"""
    if not train or p in (0, 1):
        return dropout(g, input, p, train)
    # Not a Dropout of a constant: the runtime would fold it and drop the same features in each run.
    kept = g.cast(chosen_of_shape(g, _features(input), 1 - p), input.dtype)
    return g.op("Mul", input, g.op("Div", kept, 1 - p))


@converter("aten::alpha_dropout")
def alpha_dropout(g: Builder, input: Value, p: float, train: bool) -> Value:
    """aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    if not train or p in (0, 1):
        return dropout(g, input, p, train)
    return _alpha_dropped(g, input, emit.dropout(g, input, p)[1], p)


@converter("aten::feature_alpha_dropout")
def feature_alpha_dropout(g: Builder, input: Value, p: float, train: bool) -> Value:
    """aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    if not train or p in (0, 1):
        return dropout(g, input, p, train)
    return _alpha_dropped(g, input, chosen_of_shape(g, _features(input), 1 - p), p)


def _alpha_dropped(g: Builder, x: Value, kept: Value, p: float) -> Value:
    """Dropped elements become selu's limit; scale and shift restore mean 0 and variance 1."""
    scale = 1 / math.sqrt((SELU_LIMIT**2 * p + 1) * (1 - p))
    if g.opset >= 9:
        mixed = g.op("Where", kept, x, g.constant(-SELU_LIMIT, x.dtype))
    else:
        factor = g.cast(kept, x.dtype)
        mixed = g.op("Add", g.op("Mul", x, factor), g.op("Mul", g.op("Sub", factor, 1.0), SELU_LIMIT))
    return g.op("Add", g.op("Mul", mixed, scale), SELU_LIMIT * scale * p)


def _features(x: Value) -> Shape:
    """The shape of one number per sample and channel."""
    assert x.shape is not None
    return (*x.shape[:2], *(1 for _ in x.shape[2:]))
