"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.graph.sizes import Size, is_static, product
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.elementwise.activation import available, widened
from onnxport.ops.reduction.norms import vector_norm

# ONNX Runtime does not share constants with more elements.
MAX_SHARED = 8


@converter("aten::batch_norm")
def batch_norm(
    g: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor"""  # noqa: E501
    if running_mean is None or running_var is None or (training and not g.context.train):
        return _by_own_statistics(g, input, weight, bias, eps)
    scale = weight if weight is not None else _per_channel(g, running_mean, 1.0)
    shift = bias if bias is not None else _per_channel(g, running_mean, 0.0)
    operands = g.promoted(input, scale, shift, running_mean, running_var)
    if not training:
        return g.op("BatchNormalization", *operands, epsilon=eps)
    if any(map(_may_be_shared, (running_mean, running_var))):
        operands[3:] = [emit.reduce(g, "ReduceMean", operands[0], _all_but_channels(input), keepdims=False)] * 2
    if g.opset < 14:
        return g.op("BatchNormalization", *operands, outputs=5, epsilon=eps, momentum=1 - momentum)[0]
    return g.op(
        "BatchNormalization", *operands, outputs=3, epsilon=eps, momentum=1 - momentum, training_mode=1
    )[0]  # fmt: skip


def _may_be_shared(statistics: Value) -> bool:
    """Whether ONNX Runtime may share a weight of the model with these running statistics.

    It shares small constants of equal content, as new statistics have, and overwrites them with the updated statistics.
    In training the result does not depend on the old statistics, so other values do as well.
    """
    content = statistics.data
    return content is not None and content.numel() <= MAX_SHARED and bool((content == content.flatten()[:1]).all())


@converter("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit.no_stats")
def native_batch_norm(
    g: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    running_mean: Value | None = None,
    running_var: Value | None = None,
) -> tuple[Value, Value, Value]:
    """aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    result = batch_norm(g, input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        nothing = g.constant(torch.zeros(0), g.outputs[1].dtype)
        return result, nothing, nothing
    mean, inverse = _statistics(g, widened(g, input), _all_but_channels(input), eps)
    return result, emit.reshape(g, mean, [_size(input, 1)]), emit.reshape(g, inverse, [_size(input, 1)])


@converter("aten::_native_batch_norm_legit_functional")
def native_batch_norm_functional(
    g: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""  # noqa: E501
    results = native_batch_norm(g, input, weight, bias, training, momentum, eps, running_mean, running_var)
    if not training:
        return (*results, running_mean, running_var)
    x, axes = widened(g, input), _all_but_channels(input)
    mean = emit.reduce(g, "ReduceMean", x, axes, keepdims=True)
    count = product(_size(input, axis) for axis in axes)
    if not isinstance(count, int):
        g.unsupported("the running variance over a dynamic number of elements")
    variance = g.op("Mul", _variance(g, g.op("Sub", x, mean), axes), count / max(count - 1, 1))
    new = (emit.reshape(g, value, [_size(input, 1)]) for value in (mean, variance))
    updated = (
        g.op("Add", g.op("Mul", g.cast(old, x.dtype), 1 - momentum), g.op("Mul", value, momentum))
        for old, value in zip((running_mean, running_var), new, strict=True)
    )
    return (*results, *updated)


@converter("aten::_batch_norm_with_update_functional")
def batch_norm_with_update(
    g: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""  # noqa: E501
    results = native_batch_norm_functional(g, input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*results[:3], g.constant(torch.zeros(0), g.outputs[3].dtype), *results[3:])


@converter("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update")
def native_batch_norm_no_training(
    g: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    result = batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)
    return (result, *(g.constant(torch.zeros(0), output.dtype) for output in g.outputs[1:]))


@converter("aten::instance_norm")
def instance_norm(
    g: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"""  # noqa: E501
    if not use_input_stats:
        return batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)
    channels = _size(input, 1)
    if not isinstance(channels, int) or not available(g, "InstanceNormalization", input.dtype):
        axes = range(2, input.rank)
        return _affine(g, _standardised(g, widened(g, input), axes, eps), weight, bias, input.rank - 2)
    scale = weight if weight is not None else g.constant(torch.ones(channels), input.dtype)
    shift = bias if bias is not None else g.constant(torch.zeros(channels), input.dtype)
    return g.op("InstanceNormalization", *g.promoted(input, scale, shift), epsilon=eps)


@converter("aten::layer_norm")
def layer_norm(
    g: Builder,
    input: Value,
    normalized_shape: Sequence[AnySize],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    """aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor"""  # noqa: E501
    scale = _scale(g, input, len(normalized_shape), weight)
    if scale is None or not available(g, "LayerNormalization", input.dtype):
        axes = range(input.rank - len(normalized_shape), input.rank)
        return _affine(g, _standardised(g, widened(g, input), axes, eps), weight, bias)
    operands = g.promoted(input, scale, *(() if bias is None else (bias,)))
    return g.op("LayerNormalization", *operands, axis=-len(normalized_shape), epsilon=eps)


@converter("aten::native_layer_norm")
def native_layer_norm(
    g: Builder,
    input: Value,
    normalized_shape: Sequence[AnySize],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    """aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    result = layer_norm(g, input, normalized_shape, weight, bias, eps)
    axes = range(input.rank - len(normalized_shape), input.rank)
    return (result, *_statistics(g, widened(g, input), axes, eps))


@converter("aten::group_norm")
def group_norm(
    g: Builder,
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor"""  # noqa: E501
    # The runtime has no kernel for GroupNormalization (opset 21): its expansion takes six times as long.
    assert input.shape is not None
    x = input if available(g, "InstanceNormalization", input.dtype) else widened(g, input)
    groups = emit.reshape(g, x, _grouped(input, num_groups))
    if available(g, "InstanceNormalization", input.dtype):
        scale, shift = (g.constant(fill(num_groups), x.dtype) for fill in (torch.ones, torch.zeros))
        normal = g.op("InstanceNormalization", groups, scale, shift, epsilon=eps)
    else:
        normal = _standardised(g, groups, [2], eps)
    return _affine(g, emit.reshape(g, normal, input.shape), weight, bias, input.rank - 2)


@converter("aten::native_group_norm")
def native_group_norm(
    g: Builder, input: Value, weight: Value | None, bias: Value | None, group: int, eps: float, **sizes: Any
) -> tuple[Value, Value, Value]:
    """aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    groups = emit.reshape(g, widened(g, input), _grouped(input, group))
    mean, inverse = (emit.squeeze(g, value, [2]) for value in _statistics(g, groups, [2], eps))
    return group_norm(g, input, group, weight, bias, eps), mean, inverse


@converter("aten::rms_norm")
def rms_norm(
    g: Builder,
    input: Value,
    normalized_shape: Sequence[AnySize],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    """aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    scale = _scale(g, input, len(normalized_shape), weight)
    epsilon = _epsilon(input, eps)
    if scale is not None and available(g, "RMSNormalization", input.dtype):
        return g.op("RMSNormalization", *g.promoted(input, scale), axis=-len(normalized_shape), epsilon=epsilon)
    x = widened(g, input)
    return _affine(g, g.op("Div", x, _root_mean_square(g, x, len(normalized_shape), epsilon)), weight, None)


@converter("aten::_fused_rms_norm")
def fused_rms_norm(
    g: Builder, input: Value, normalized_shape: Sequence[AnySize], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    """aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""
    root = _root_mean_square(g, widened(g, input), len(normalized_shape), _epsilon(input, eps))
    return rms_norm(g, input, normalized_shape, weight, eps), g.op("Reciprocal", root)


@converter("aten::renorm")
def renorm(g: Builder, self: Value, p: float, dim: int, maxnorm: float) -> Value:
    """aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor"""
    x = widened(g, self)
    axes = [axis for axis in range(x.rank) if axis != dim % x.rank]
    norm = vector_norm(g, x, float(p), axes, keepdim=True)
    factor = g.op("Div", float(maxnorm), g.op("Add", norm, 1e-7))
    return g.op("Mul", x, g.op("Where", g.op("Greater", norm, float(maxnorm)), factor, g.constant(1.0, x.dtype)))


def _by_own_statistics(g: Builder, x: Value, weight: Value | None, bias: Value | None, eps: float) -> Value:
    """Batch normalization by the mean and variance of the batch."""
    standard = _standardised(g, widened(g, x), _all_but_channels(x), eps)
    return _affine(g, standard, weight, bias, x.rank - 2)


def _standardised(g: Builder, x: Value, axes: Sequence[int], eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps), in the form that the runtime fuses to a layer normalization."""
    centred = g.op("Sub", x, emit.reduce(g, "ReduceMean", x, list(axes), keepdims=True))
    return g.op("Div", centred, _deviation(g, centred, axes, eps))


def _statistics(g: Builder, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """The mean and the reciprocal of the standard deviation, as the native operators return them."""
    mean = emit.reduce(g, "ReduceMean", x, list(axes), keepdims=True)
    return mean, g.op("Reciprocal", _deviation(g, g.op("Sub", x, mean), axes, eps))


def _deviation(g: Builder, centred: Value, axes: Sequence[int], eps: float) -> Value:
    return g.op("Sqrt", g.op("Add", _variance(g, centred, axes), eps))


def _variance(g: Builder, centred: Value, axes: Sequence[int]) -> Value:
    """By Pow, which the runtime fuses; in float64 the fused node would ignore the epsilon."""
    wide = centred.dtype == torch.float64
    square = g.op("Mul", centred, centred) if wide else g.op("Pow", centred, 2.0)
    return emit.reduce(g, "ReduceMean", square, list(axes), keepdims=True)


def _root_mean_square(g: Builder, x: Value, count: int, eps: float) -> Value:
    """Over the last ``count`` axes."""
    return _deviation(g, x, range(x.rank - count, x.rank), eps)


def _affine(g: Builder, x: Value, weight: Value | None, bias: Value | None, trailing: int = 0) -> Value:
    """Scale and shift by parameters for an axis with ``trailing`` axes after it."""
    axes = range(1, 1 + trailing)
    if weight is not None:
        x = g.op("Mul", x, emit.unsqueeze(g, g.cast(weight, x.dtype), axes))
    return x if bias is None else g.op("Add", x, emit.unsqueeze(g, g.cast(bias, x.dtype), axes))


def _scale(g: Builder, x: Value, count: int, weight: Value | None) -> Value | None:
    """The weight, or ones; None if the normalized sizes are not known."""
    assert x.shape is not None
    shape = x.shape[x.rank - count :]
    if weight is not None or not is_static(shape):
        return weight
    return g.constant(torch.ones(shape), x.dtype)  # type: ignore[arg-type]


def _epsilon(x: Value, eps: float | None) -> float:
    return torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps if eps is None else eps


def _grouped(x: Value, groups: int) -> list[Size]:
    assert x.shape is not None
    return [x.shape[0], groups, product(x.shape[1:]) // groups]


def _all_but_channels(x: Value) -> list[int]:
    return [axis for axis in range(x.rank) if axis != 1]


def _size(x: Value, axis: int) -> Size:
    assert x.shape is not None
    return x.shape[axis]


def _per_channel(g: Builder, statistics: Value, number: float) -> Value:
    """A constant with one number per channel of the statistics."""
    size = _size(statistics, 0)
    if isinstance(size, int):
        return g.constant(torch.full([size], number), statistics.dtype)
    return emit.filled(g, [size], number, statistics.dtype)
