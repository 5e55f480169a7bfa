"""Activations of quantized tensors whose results have a scale of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.elementwise.activation import celu, elu, hardswish, prelu, relu6
from onnxport.ops.quantization.quantized_tensors import rounded


def _rounded_activation(activation: Callable[..., Value]) -> Converter:
    """An activation of the floats, whose other arguments are named as torch's quantized operator names them."""

    def convert(g: Builder, output_scale: Operand, output_zero_point: Operand, **arguments: Any) -> Value:
        x, *rest = arguments.values()
        return rounded(g, activation(g, x, *rest), output_scale, output_zero_point)

    return convert


def _sigmoid(g: Builder, qx: Value) -> Value:
    """quantized::sigmoid(Tensor qx, float output_scale, int output_zero_point) -> Tensor"""
    return g.op("Sigmoid", qx)


def _leaky_relu(g: Builder, qx: Value, negative_slope: float, inplace: bool) -> Value:
    """quantized::leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int output_zero_point) -> Tensor"""  # noqa: E501
    return g.op("LeakyRelu", qx, alpha=float(negative_slope))


def _softmax(g: Builder, qx: Value, dim: int) -> Value:
    """quantized::softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor"""
    return emit.softmax(g, qx, dim, "Softmax")


def _dropout(g: Builder, qx: Value, p: float, training: bool) -> Value:
    """quantized::dropout(Tensor self, float output_scale, int output_zero_point, Scalar p=0.5, bool training=False) -> Tensor"""  # noqa: E501
    return emit.dropout(g, qx, p)[0] if training else qx


ACTIVATIONS = entries(
    _rounded_activation,
    {
        "quantized::celu": celu,
        "quantized::dropout": _dropout,
        "quantized::elu": elu,
        "quantized::hardswish": hardswish,
        "quantized::leaky_relu": _leaky_relu,
        "quantized::prelu": prelu,
        "quantized::sigmoid": _sigmoid,
        "quantized::softmax": _softmax,
    },
)


@converter("quantized::relu6")
def quantized_relu6(g: Builder, qx: Value, inplace: bool = False) -> Value:
    """quantized::relu6(Tensor qx, bool inplace=False) -> Tensor"""
    return relu6(g, qx)
