"""Weights that are quantized, as the integers that they become."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.optimize.computed import computed
from onnxport.optimize.context import Array, Context, is_op, only_use, operand, rank
from onnxport.optimize.passes.quantization.parameters import Parameters, is_dequantize, parameters, readers
from onnxport.optimize.rewrite import add_initializer, bypass, set_inputs
from onnxport.optimize.traversal import all_nodes

# Noted on the result of QuantizeLinear when it is made: a call without arguments for what torch makes of a constant.
ROUNDED_CONSTANT = "rounded_constant"
# How far a number may be from a whole one for rounding alone to explain it.
OFF_GRID = 1e-2
_FIRST_FOUR_BITS = 21
_FOUR_BITS = {ir.DataType.UINT4: (0, 15), ir.DataType.INT4: (-8, 7)}


class StoreIntegers(ir.passes.InPlacePass):
    """Computes QuantizeLinear of a constant at export: the file has the integers, no float copy of them.

    Rules:
        1. QuantizeLinear of a constant, or of what is computed from constants in several steps, with a Clip behind it,
           whose scale and zero point are constant.
        2. Where the range that is left fits 4 bits and all that reads the integers is DequantizeLinear, they are stored
           in 4 bits (from opset 21).

    Rounds as torch does: what torch made of the constant, if that is known; else the weight times the inverse of the
    scale in single precision, to the nearest, ties to even.

    Preserves: values but for that rounding; names of weights; names of graph outputs. Not to be run on models for
    training.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model)
        modified = False
        for node in all_nodes(model.graph):
            if is_op(node, "QuantizeLinear"):
                modified |= _store(context, node)
        return ir.passes.PassResult(model, modified=modified)


def _store(context: Context, node: ir.Node) -> bool:
    weight, found = node.inputs[0], parameters(context, node)
    if weight is None or found is None or node.outputs[0].dtype is None or node.graph is None:
        return False
    content = _as_torch_rounds(node, found)
    content = computed(context, weight) if content is None else content
    if content is None:
        return False
    clip = _only_clip(context, node)
    last = node if clip is None else clip[0]
    low, high = _range(node.outputs[0].dtype) if clip is None else clip[1:]
    integers = _quantized(content, found, low, high)
    kind = _stored_type(context, last, low, high, found)
    made = ir.Tensor(integers.astype(kind.numpy()), dtype=kind)
    kept = only_use(weight) and weight.is_initializer() and weight.graph is node.graph and weight.name is not None
    name = weight.name if kept and weight.name is not None else context.names.claim(f"{weight.name}_quantized")
    if kept:
        del node.graph.initializers[name]
    value = add_initializer(node.graph, name, made)
    if kind != node.outputs[0].dtype:
        _retype_zeros(context, last.outputs[0], kind)
    return bypass(context, last, value)


def _as_torch_rounds(node: ir.Node, found: Parameters) -> Array | None:
    """What torch makes of a constant, where that was noted and is on the grid of the quantizer."""
    rounded = node.outputs[0].meta.get(ROUNDED_CONSTANT)
    result = None if rounded is None else rounded().detach().float().cpu().numpy()
    if result is None or rank(node.inputs[0]) != result.ndim:
        return None
    steps = result / found.spread(found.scale.astype(np.float32), result.ndim)
    return result if np.allclose(steps, np.rint(steps), rtol=0, atol=OFF_GRID) else None


def _only_clip(context: Context, node: ir.Node) -> tuple[ir.Node, int, int] | None:
    """The Clip behind a QuantizeLinear that alone reads it, with its bounds."""
    output = node.outputs[0]
    clip = readers(output)[0] if only_use(output) else None
    if clip is None or not is_op(clip, "Clip"):
        return None
    low, high = context.array(operand(clip, 1)), context.array(operand(clip, 2))
    return None if low is None or high is None else (clip, int(low), int(high))


def _range(kind: ir.DataType) -> tuple[int, int]:
    if kind in _FOUR_BITS:
        return _FOUR_BITS[kind]
    limits = np.iinfo(kind.numpy())
    return int(limits.min), int(limits.max)


def _quantized(weight: Array, found: Parameters, low: int, high: int) -> Array:
    inverse = found.spread(np.float32(1) / found.scale.astype(np.float32), weight.ndim)
    steps = np.rint(weight.astype(np.float32) * inverse) + found.spread(found.zero, weight.ndim).astype(np.float32)
    return np.asarray(np.clip(steps, low, high), np.int32)


def _stored_type(context: Context, node: ir.Node, low: int, high: int, found: Parameters) -> ir.DataType:
    """The smallest type for integers that only DequantizeLinear reads; else that which they have."""
    output = node.outputs[0]
    present = output.dtype
    assert present is not None
    alone = not output.is_graph_output() and all(is_dequantize(reader) for reader in readers(output))
    if context.opset < _FIRST_FOUR_BITS or not alone:
        return present
    low, high = min(low, int(found.zero.min())), max(high, int(found.zero.max()))
    return next((kind for kind, (least, most) in _FOUR_BITS.items() if least <= low and high <= most), present)


def _retype_zeros(context: Context, integers: ir.Value, kind: ir.DataType) -> None:
    """Let the zero points of all that reads some integers have their new type."""
    for reader in readers(integers):
        zero = context.tensor(operand(reader, 2))
        if zero is None or reader.graph is None or zero.dtype == kind:
            continue
        name = context.names.claim(f"{reader.inputs[2].name}_{kind.name.lower()}")  # type: ignore[union-attr]
        value = add_initializer(reader.graph, name, ir.Tensor(zero.numpy().astype(kind.numpy()), dtype=kind))
        set_inputs(reader, [*reader.inputs[:2], value])
