"""A factor and a shift for each channel behind a layer with quantized weights, in the weight's scale and the bias."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from onnxport.optimize.computed import computed
from onnxport.optimize.context import Array, Context, is_op, only_use, operand, produced_by
from onnxport.optimize.passes.quantization.parameters import Parameters, parameters
from onnxport.optimize.rewrite import add_initializer, set_inputs

_FIRST_BY_CHANNEL = 13
_INT32 = np.iinfo(np.int32)


@dataclasses.dataclass(frozen=True)
class _Quantized:
    """Integers with their scales, as DequantizeLinear reads them."""

    node: ir.Node
    integers: Array
    kind: ir.DataType
    parameters: Parameters


def fold_into_scales(context: Context, layer: ir.Node, factors: Array, shifts: Array) -> bool:
    """Let a layer's weight and bias do what is done to each channel of its result; says whether that can be said.

    The integers of the weight stay: the factors go into its scale. A negative factor turns their signs, which needs a
    zero point of 0 and no integer that has no opposite. A channel with the factor 0 gets zeros.
    """
    weight = _read(context, produced_by(layer.inputs[1], "DequantizeLinear"))
    axis = None if weight is None else _channel_axis(layer, weight.integers.ndim)
    if weight is None or axis is None or context.opset < _FIRST_BY_CHANNEL:
        return False
    folded = _scaled(weight, axis, factors)
    bias = _bias(context, layer, len(factors))
    if folded is None or bias is None:
        return False
    steps = np.where(factors == 0, 1, np.abs(factors))
    _store(context, weight, folded, (_along(weight, axis, len(factors)) * steps).astype(np.float32), axis)
    shifted = bias[0] * factors + shifts
    if bias[1] is None:
        _set_bias(context, layer, _float_bias(context, layer, shifted.astype(np.float32)))
    else:
        _set_bias(context, layer, _integer_bias(context, layer, bias[1], shifted, steps))
    return True


def _read(context: Context, node: ir.Node | None, *, shared: bool = False) -> _Quantized | None:
    """What a DequantizeLinear for one reader reads; integers that others read as well if ``shared``."""
    if node is None or not only_use(node.outputs[0]) or node.graph is None:
        return None
    integers, found = node.inputs[0], parameters(context, node)
    tensor = context.tensor(integers)
    if integers is None or tensor is None or found is None or not integers.is_initializer():
        return None
    if not only_use(integers) and not shared:
        return None
    return _Quantized(node, tensor.numpy().astype(np.int32), tensor.dtype, found)


def _channel_axis(layer: ir.Node, weight_rank: int) -> int | None:
    """The axis of the weight that is the result's channels."""
    if is_op(layer, "Conv"):
        return 0
    if is_op(layer, "ConvTranspose"):
        return 1 if layer.attributes.get_int("group", 1) == 1 else None
    if weight_rank != 2 or not is_op(layer, "Gemm") or layer.attributes.get_float("alpha", 1.0) != 1:
        return None
    return 0 if layer.attributes.get_int("transB", 0) else 1


def _along(weight: _Quantized, axis: int, channels: int) -> Array:
    """The scale of each channel, in float64."""
    return np.broadcast_to(weight.parameters.scale.astype(np.float64), (channels,))


def _scaled(weight: _Quantized, axis: int, factors: Array) -> Array | None:
    """The integers with the signs of the factors; None where that is not possible."""
    if weight.parameters.axis not in (None, axis):
        return None
    if (factors > 0).all():
        return weight.integers
    signs = np.sign(factors).reshape([-1 if index == axis else 1 for index in range(weight.integers.ndim)])
    turned = weight.integers * signs.astype(np.int32)
    largest = 2 ** (int(weight.kind.bitwidth) - 1) - 1
    if not weight.kind.is_signed() or weight.parameters.zero.any() or turned.max() > largest:
        return None
    return turned


def _store(context: Context, weight: _Quantized, integers: Array, scale: Array, axis: int) -> None:
    node = weight.node
    source, old_scale = node.inputs[0], node.inputs[1]
    assert source is not None and old_scale is not None and node.graph is not None
    source.const_value = ir.Tensor(integers.astype(weight.kind.numpy()), dtype=weight.kind, name=source.name)
    made = add_initializer(node.graph, context.names.claim(f"{source.name}_scale"), ir.Tensor(scale))
    inputs: list[ir.Value | None] = [source, made]
    if weight.parameters.zero.any():
        zeros = np.broadcast_to(weight.parameters.zero, scale.shape).astype(weight.kind.numpy())
        name = context.names.claim(f"{source.name}_zero_point")
        inputs.append(add_initializer(node.graph, name, ir.Tensor(zeros, dtype=weight.kind)))
    set_inputs(node, inputs)
    node.attributes["axis"] = ir.AttrInt64("axis", axis)


def _bias(context: Context, layer: ir.Node, channels: int) -> tuple[Array, _Quantized | None] | None:
    """The bias of each channel in float64, and how it is stored if that is in integers."""
    value = operand(layer, 2)
    if value is None:
        return np.zeros(channels), None
    content = computed(context, value)
    if content is not None:
        array = content.astype(np.float64) * layer.attributes.get_float("beta", 1.0)
        return (np.broadcast_to(array.reshape(-1), (channels,)), None) if array.size in (1, channels) else None
    stored = _read(context, produced_by(value, "DequantizeLinear"), shared=True)
    if stored is None or stored.kind != ir.DataType.INT32 or stored.integers.shape != (channels,):
        return None
    return stored.integers * stored.parameters.scale.astype(np.float64), stored


def _float_bias(context: Context, layer: ir.Node, bias: Array) -> ir.Value:
    graph, old = layer.graph, operand(layer, 2)
    assert graph is not None
    if old is not None and old.is_initializer() and only_use(old):
        old.const_value = ir.Tensor(bias, name=old.name)
        return old
    return add_initializer(graph, context.names.claim(_bias_name(layer)), ir.Tensor(bias))


def _bias_name(layer: ir.Node) -> str:
    weight = produced_by(layer.inputs[1], "DequantizeLinear")
    source = None if weight is None else weight.inputs[0]
    name = "" if source is None or source.name is None else source.name
    return f"{name.removesuffix('weight').rstrip('.')}.bias".lstrip(".")


def _integer_bias(context: Context, layer: ir.Node, old: _Quantized, bias: Array, steps: Array) -> ir.Value:
    """The bias in whole steps of the new scale; the same DequantizeLinear reads it."""
    node = old.node
    assert node.graph is not None
    scale = (old.parameters.scale.astype(np.float64) * steps).astype(np.float32)
    whole = np.clip(np.rint(bias / scale), _INT32.min, _INT32.max).astype(np.int32)
    name = context.names.claim(_bias_name(layer))
    source = add_initializer(node.graph, name, ir.Tensor(whole))
    made = add_initializer(node.graph, context.names.claim(f"{name}_scale"), ir.Tensor(scale))
    set_inputs(node, [source, made])
    node.attributes["axis"] = ir.AttrInt64("axis", 0)
    return node.outputs[0]


def _set_bias(context: Context, layer: ir.Node, bias: ir.Value) -> None:
    set_inputs(layer, [layer.inputs[0], layer.inputs[1], bias])
    layer.attributes.pop("beta", None)
