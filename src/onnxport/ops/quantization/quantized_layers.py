"""Layers on quantized tensors: convolutions with packed weights, norms, and activations with a scale of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.elementwise.activation import hardswish
from onnxport.ops.nn.normalization import group_norm, instance_norm, layer_norm
from onnxport.ops.quantization.quantized_tensors import floats, rounded, stored_bias, stored_weight, unpacked, with_relu


def _convolution(
    g: Builder, qx: Value, packed_weight: Any, output_scale: Operand, output_zero_point: Operand, *, relu: bool = False
) -> Value:
    """quantized::conv2d.new(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int output_zero_point) -> Tensor"""  # noqa: E501
    y = _product(g, qx, packed_weight)
    return rounded(g, g.op("Relu", y) if relu else y, output_scale, output_zero_point)


def _product(g: Builder, qx: Value, packed: Any) -> Value:
    """A convolution in floats. Those of one dimension have the weights of two, of which the first is 1 long."""
    weight, bias = unpacked(packed)
    spatial = qx.rank - 2
    kernel = list(weight.shape[-spatial:])
    padding = list(packed.padding())[-spatial:]
    return g.op(
        "Conv",
        qx,
        stored_weight(g, weight, [*weight.shape[:2], *kernel]),
        stored_bias(g, qx, weight, bias),
        kernel_shape=kernel,
        strides=list(packed.stride())[-spatial:],
        pads=[*padding, *padding],
        dilations=list(packed.dilation())[-spatial:],
        group=packed.groups(),
    )


CONVOLUTIONS = entries(
    with_relu(_convolution),
    {f"quantized::conv{rank}d{suffix}": bool(suffix) for rank in (1, 2, 3) for suffix in ("", "_relu")},
)


# Norms


def _rounded_norm(norm: Callable[..., Value]) -> Converter:
    """A norm of the floats, whose other arguments are named as torch's quantized operator names them."""

    def convert(g: Builder, input: Value, output_scale: Operand, output_zero_point: Operand, **settings: Any) -> Value:
        y = norm(g, floats(input), **settings)
        return rounded(g, y, output_scale, output_zero_point, g.outputs[0].dtype)

    return convert


OF_EACH_INSTANCE = partial(instance_norm, running_mean=None, running_var=None, use_input_stats=True, momentum=0.0)
NORMS = entries(
    _rounded_norm,
    {
        "quantized::layer_norm": layer_norm,
        "quantized::group_norm": group_norm,
        "quantized::instance_norm": OF_EACH_INSTANCE,
    },
)


# Activations


@converter("quantized::leaky_relu")
def leaky_relu(
    g: Builder,
    qx: Value,
    negative_slope: float,
    inplace: bool,
    output_scale: Operand,
    output_zero_point: Operand,
) -> Value:
    """quantized::leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int output_zero_point) -> Tensor"""  # noqa: E501
    y = g.op("LeakyRelu", qx, alpha=float(negative_slope))
    return rounded(g, y, output_scale, output_zero_point, g.outputs[0].dtype)


@converter("quantized::sigmoid")
def sigmoid(g: Builder, qx: Value, output_scale: Operand, output_zero_point: Operand) -> Value:
    """quantized::sigmoid(Tensor qx, float output_scale, int output_zero_point) -> Tensor"""
    return rounded(g, g.op("Sigmoid", qx), output_scale, output_zero_point, g.outputs[0].dtype)


@converter("quantized::hardswish")
def quantized_hardswish(g: Builder, input: Value, output_scale: Operand, output_zero_point: Operand) -> Value:
    """quantized::hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor"""
    return rounded(g, hardswish(g, floats(input)), output_scale, output_zero_point, g.outputs[0].dtype)
