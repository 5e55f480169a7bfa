"""Layers on quantized tensors: linear layers and convolutions with packed weights, and norms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.quantized import quantized_constant
from onnxport.lower.registry import Converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.ops.nn.convolution import conv, conv_transpose
from onnxport.ops.nn.normalization import batch_norm, group_norm, instance_norm, layer_norm
from onnxport.ops.quantization.packed_weights import stored_bias, unpacked
from onnxport.ops.quantization.quantized_tensors import rounded


def _linear(
    g: Builder, X: Value, W_prepack: Any, Y_scale_i: Operand, Y_zero_point_i: Operand, *, relu: bool = False
) -> Value:
    """quantized::linear(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y"""  # noqa: E501
    weight, bias = unpacked(W_prepack)
    y = _matrix_product(g, X, quantized_constant(g, weight), stored_bias(g, X, weight, bias))
    return rounded(g, g.op("Relu", y) if relu else y, Y_scale_i, Y_zero_point_i)


def _matrix_product(g: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    if x.rank == 2 and (bias is not None or g.opset >= 11):
        return g.op("Gemm", x, weight, bias, transB=1)
    product = g.op("MatMul", x, emit.transpose(g, weight, [1, 0]))
    return product if bias is None else g.op("Add", product, bias)


LINEAR = entries(lambda relu: partial(_linear, relu=relu), {"quantized::linear": False, "quantized::linear_relu": True})


# Convolutions. Those of one dimension are packed as those of two, of which the first is 1 long.


def _settings(packed: Any, spatial: int) -> tuple[list[int], list[int], list[int]]:
    """Stride, padding and dilation."""
    return tuple(list(given)[-spatial:] for given in (packed.stride(), packed.padding(), packed.dilation()))  # type: ignore[return-value]


def _weight_and_bias(g: Builder, qx: Value, packed: Any) -> tuple[Value, Value | None]:
    weight, bias = unpacked(packed)
    stored = quantized_constant(g, weight, shape=[*weight.shape[:2], *weight.shape[2 - qx.rank :]])
    return stored, stored_bias(g, qx, weight, bias)


def _convolution(
    g: Builder, qx: Value, packed_weight: Any, output_scale: Operand, output_zero_point: Operand, *, relu: bool = False
) -> Value:
    """quantized::conv2d.new(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int output_zero_point) -> Tensor"""  # noqa: E501
    weight, bias = _weight_and_bias(g, qx, packed_weight)
    y = conv(g, qx, weight, bias, *_settings(packed_weight, qx.rank - 2), packed_weight.groups())
    return rounded(g, g.op("Relu", y) if relu else y, output_scale, output_zero_point)


def _transposed_convolution(
    g: Builder, qx: Value, packed_weight: Any, output_scale: Operand, output_zero_point: Operand
) -> Value:
    """quantized::conv_transpose2d(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int output_zero_point) -> Tensor

    The convolution of the floats, as torch defines it. Its oneDNN kernels (engines "x86" and "onednn") give something
    else where the layer has other numbers of channels before and behind; those of FBGEMM and QNNPACK do not.
    """  # noqa: E501
    weight, bias = _weight_and_bias(g, qx, packed_weight)
    stride, padding, dilation = _settings(packed_weight, qx.rank - 2)
    more = list(packed_weight.output_padding())[2 - qx.rank :]
    y = conv_transpose(g, qx, weight, bias, stride, padding, more, packed_weight.groups(), dilation)
    return rounded(g, y, output_scale, output_zero_point)


CONVOLUTIONS = entries(
    lambda relu: partial(_convolution, relu=relu),
    {f"quantized::conv{rank}d{suffix}": bool(suffix) for rank in (1, 2, 3) for suffix in ("", "_relu")},
)
TRANSPOSED = entries(lambda: _transposed_convolution, {f"quantized::conv_transpose{rank}d": () for rank in (1, 2, 3)})


# Norms


def _rounded_norm(norm: Callable[..., Value]) -> Converter:
    """A norm of the floats, whose other arguments are named as torch's quantized operator names them."""

    def convert(g: Builder, input: Value, output_scale: Operand, output_zero_point: Operand, **settings: Any) -> Value:
        return rounded(g, norm(g, input, **settings), output_scale, output_zero_point)

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


def _batch_norm(
    g: Builder,
    qx: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    eps: float,
    output_scale: Operand,
    output_zero_point: Operand,
    *,
    relu: bool,
) -> Value:
    """quantized::batch_norm2d(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, float output_scale, int output_zero_point) -> Tensor"""  # noqa: E501
    y = batch_norm(g, qx, weight, bias, mean, var, training=False, momentum=0.0, eps=eps)
    return rounded(g, g.op("Relu", y) if relu else y, output_scale, output_zero_point)


BATCH_NORMS = entries(
    lambda relu: partial(_batch_norm, relu=relu),
    {
        f"quantized::batch_norm{rank}{suffix}": bool(suffix)
        for rank in ("", "1d", "2d", "3d")
        for suffix in ("", "_relu")
    },
)
