"""Batch normalisation as part of the layer before it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import onnx_ir as ir

from onnxport.optimize.computed import computed
from onnxport.optimize.context import Array, Context, is_op, only_use, operand, produced_by, rank
from onnxport.optimize.passes.quantization.channel_scales import fold_into_scales
from onnxport.optimize.rewrite import add_initializer, become, can_replace, discard, replace, set_inputs
from onnxport.optimize.traversal import all_nodes

_EXACT = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


class FoldBatchNorm(ir.passes.InPlacePass):
    """Multiplies a BatchNormalization in inference mode into the weights of the layer that feeds it; and what else only
    scales and shifts channels.

    Rules:
        1. Conv and ConvTranspose, with any groups.
        2. Gemm and MatMul of matrices with a constant right-hand side; a MatMul becomes a Gemm.
        3. Mul, Div and Add of a constant for each channel after Conv and ConvTranspose, in float32 or float64: in less,
           the product of a weight and a small scale may not be a number of the type.
        4. Where the weight is DequantizeLinear of integers, the factors go into its scale and the integers stay
           (`fold_into_scales`).

    Only if nothing else reads the layer's result (its shape may be read) and no other node the weight, if weight, bias
    and statistics are constant, and if the folded weights are finite. They may be computed from constants in several
    steps. Computed in float64 and rounded once to the weight's type. The weight keeps its name, and so does a bias
    without other uses; a new bias is named after the weight (`conv.weight` -> `conv.bias`).

    Preserves: values up to rounding; the parameters' memory (folded weights are new tensors); names of graph outputs.
    Not to be run on models for training.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model)
        modified = False
        for node in all_nodes(model.graph):
            if is_op(node, "BatchNormalization"):
                modified |= _fold_norm(context, node)
            elif is_op(node, "Mul", "Add", "Div"):
                modified |= _fold_channelwise(context, node)
        return ir.passes.PassResult(model, modified=modified)


@dataclasses.dataclass(frozen=True)
class _Affine:
    """y = x * scale + shift, for each channel, in float64."""

    scale: Array
    shift: Array


def _fold_norm(context: Context, norm: ir.Node) -> bool:
    layer = _layer_before(norm, norm.inputs[0])
    affine = None if layer is None else _affine(context, norm)
    return layer is not None and affine is not None and _fold(context, layer, norm, affine)


def _fold_channelwise(context: Context, node: ir.Node) -> bool:
    left, right = node.inputs
    for value, other in ((left, right), (right, left)):
        layer = _layer_before(node, value)
        if layer is None or value is None or value.dtype not in _EXACT or not is_op(layer, "Conv", "ConvTranspose"):
            continue
        factors = _for_each_channel(_constant(context, other, value), value)
        if factors is None:
            continue
        zeros, ones = np.zeros_like(factors), np.ones_like(factors)
        if node.op_type == "Div" and (other is left or not factors.all()):
            continue
        kinds = {"Mul": _Affine(factors, zeros), "Add": _Affine(ones, factors)}
        affine = kinds[node.op_type] if node.op_type in kinds else _Affine(1 / factors, zeros)
        return _fold(context, layer, node, affine)
    return False


def _constant(context: Context, value: ir.Value | None, like: ir.Value) -> Array | None:
    """The content of a constant that may be one number for each channel of another value."""
    if value is None or like.shape is None or value.shape is None:
        return None
    sizes = [size for size in value.shape if isinstance(size, int)]
    return computed(context, value) if math.prod(sizes) in (1, like.shape[1]) else None


def _for_each_channel(array: Array | None, value: ir.Value) -> Array | None:
    """A constant as one number for each channel of a value, in float64; None if it is something else."""
    if array is None or value.shape is None or array.ndim > len(value.shape):
        return None
    channels = value.shape[1]
    aligned: Array = array.reshape((1,) * (len(value.shape) - array.ndim) + array.shape)
    if not isinstance(channels, int) or aligned.size not in (1, channels) or aligned.shape[1] != aligned.size:
        return None
    return np.broadcast_to(aligned.reshape(-1).astype(np.float64), (channels,))


def _layer_before(node: ir.Node, value: ir.Value | None) -> ir.Node | None:
    """The layer that makes a value for this node alone, if the node can become a part of it."""
    layer = produced_by(value, "Conv", "ConvTranspose", "Gemm", "MatMul")
    if layer is None or value is None or not _is_read_once(value) or layer.graph is not node.graph:
        return None
    if not can_replace(node.outputs[0], value) or (is_op(layer, "Gemm", "MatMul") and rank(value) != 2):
        return None
    return layer


def _is_read_once(value: ir.Value) -> bool:
    """Whether one node reads the elements of a value. What is folded keeps the shape, which others may read."""
    readers = [user for user, _ in value.uses() if not is_op(user, "Shape")]
    return len(readers) == 1 and not value.is_graph_output()


def _fold(context: Context, layer: ir.Node, node: ir.Node, affine: _Affine) -> bool:
    if produced_by(layer.inputs[1], "DequantizeLinear") is not None:
        if not fold_into_scales(context, layer, affine.scale, affine.shift):
            return False
    else:
        weights = _folded(context, layer, affine)
        if weights is None:
            return False
        _store(context, layer, *weights)
    replace(node.outputs[0], layer.outputs[0])
    discard(node)
    return True


def _affine(context: Context, norm: ir.Node) -> _Affine | None:
    """What a BatchNormalization does to each channel; None in training mode or if its parameters are not constant."""
    attributes = norm.attributes
    if attributes.get_int("training_mode", 0) or not attributes.get_int("spatial", 1):
        return None
    if any(output.uses() or output.is_graph_output() for output in norm.outputs[1:]):
        return None
    known = [computed(context, parameter) for parameter in norm.inputs[1:5]]
    arrays = [array.astype(np.float64) for array in known if array is not None]
    if len(arrays) != 4:
        return None
    gamma, beta, mean, variance = arrays
    scale = gamma / np.sqrt(variance + attributes.get_float("epsilon", 1e-5))
    return _Affine(scale, beta - mean * scale)


def _folded(context: Context, layer: ir.Node, affine: _Affine) -> tuple[Array, Array] | None:
    """The new weight and bias of a layer."""
    weight = layer.inputs[1]
    tensor = context.tensor(weight)
    if weight is None or not weight.is_initializer() or not only_use(weight) or tensor is None:
        return None
    array = tensor.numpy()
    factors = _channel_factors(layer, array, affine.scale)
    old_bias = _bias(context, layer)
    if factors is None or old_bias is None:
        return None
    folded = np.empty_like(array, order="C")
    with np.errstate(over="ignore"):
        bias = (old_bias * affine.scale + affine.shift).astype(array.dtype)
        # Products in the weight's own precision, but not below float32: float64 would take five times as long and
        # gain half a rounding error. The scale itself and the bias are computed in float64.
        precision = np.float64 if array.dtype == np.float64 else np.float32
        np.multiply(array, factors.astype(precision), dtype=precision, out=folded, casting="same_kind")
    return (folded, bias) if _is_finite(folded) and np.isfinite(bias).all() else None


def _is_finite(weight: Array) -> bool:
    """Whether the products fit the type. Without an array of flags as large as the weight: the sum of squares of what
    is infinite or no number is neither finite."""
    flat = weight.reshape(-1)
    wide = flat.astype(np.float32) if weight.dtype.itemsize < 4 else flat
    return bool(np.isfinite(np.dot(wide, wide))) or bool(np.isfinite(weight).all())


def _channel_factors(layer: ir.Node, weight: Array, scale: Array) -> Array | None:
    """The scale of the output channel to which each element of the weight contributes, ready to broadcast."""
    kernel_axes = (1,) * (weight.ndim - 2)
    if is_op(layer, "Conv"):
        return scale.reshape(-1, 1, *kernel_axes)
    if is_op(layer, "ConvTranspose"):
        # The weight is [inputs, outputs of one group, kernel], its rows ordered by group.
        groups = layer.attributes.get_int("group", 1)
        rows = np.repeat(scale.reshape(groups, -1), weight.shape[0] // groups, axis=0)
        return rows.reshape(*rows.shape, *kernel_axes)
    if weight.ndim != 2:
        return None
    return scale[:, None] if layer.attributes.get_int("transB", 0) else scale[None, :]


def _bias(context: Context, layer: ir.Node) -> Array | None:
    """The bias of each channel in float64: zero if the layer has none; None if it is not constant or not a row."""
    value = operand(layer, 2)
    if value is None:
        return np.zeros(1)
    content = computed(context, value)
    if content is None or math.prod(content.shape[:-1]) != 1:
        return None
    return content.astype(np.float64).reshape(-1) * layer.attributes.get_float("beta", 1.0)


def _store(context: Context, layer: ir.Node, weight: Array, bias: Array) -> None:
    weight_value, bias_value = layer.inputs[1], operand(layer, 2)
    assert weight_value is not None and weight_value.name is not None and layer.graph is not None
    _assign(weight_value, weight)
    if bias_value is not None and bias_value.is_initializer() and only_use(bias_value):
        _assign(bias_value, bias)
    else:
        name = context.names.claim(f"{weight_value.name.removesuffix('weight').rstrip('.')}.bias".lstrip("."))
        bias_value = add_initializer(layer.graph, name, ir.Tensor(bias))
    inputs = [layer.inputs[0], weight_value, bias_value]
    if is_op(layer, "MatMul"):
        become(context, layer, "Gemm", inputs)
        return
    layer.attributes.pop("beta", None)
    set_inputs(layer, inputs)


def _assign(value: ir.Value, array: Array) -> None:
    """Gives an initializer a new tensor; the old one may be the live model's parameter and is not written to."""
    value.const_value = ir.Tensor(array, name=value.name)
    value.shape = value.const_value.shape
