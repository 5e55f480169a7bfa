"""Quantized tensors in the graph: the floats that they stand for, which DequantizeLinear gives.

Converters get and give floats. What torch has as a quantized tensor is rounded behind the converter, unless that is
done already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph import ir as captured
from onnxport.graph.ir import QUANTIZED, Node
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value

# The form in the graph of a captured value.
Lowered = Callable[[captured.Value], Value]
# Noted on integers: the captured value whose quantizer made them.
QUANTIZED_BY = "quantized_by"
# The same for a function of the user, which shows its result alone.
ROUNDED_BY = "rounded_by"
# Noted on what QuantizeLinear makes of a constant: a call without arguments for the floats that torch makes of it.
ROUNDED_CONSTANT = "rounded_constant"
# The first opset in which integers have a scale for each channel.
FIRST_BY_CHANNEL = 13
STORED = {torch.quint8: torch.uint8, torch.qint8: torch.int8}
# Activations whose results have a scale of their own, and which integer stands for 0: so many above the least.
OWN_SCALES = {"aten::sigmoid": (1 / 256, 0), "aten::hardsigmoid": (1 / 256, 0), "aten::tanh": (1 / 128, 128)}


def requantized(g: Builder, node: Node, results: Sequence[Any], lowered: Lowered) -> Sequence[Any]:
    """The results of a node; rounded again where torch has quantized tensors.

    Those have the scale of the first quantized tensor that the node takes, but for activations with one of their own.
    """
    return [
        _rounded(g, output, result, lowered) if _is_quantized(output) and result is not None else result
        for output, result in zip(node.outputs, results, strict=True)
    ]


def _rounded(g: Builder, output: captured.Value, result: Value, lowered: Lowered) -> Value:
    node, stored = output.node, STORED[output.dtype]
    if _dequantizer(result) is not None or node is None:
        return result
    taken = next((value for value in node.values() if _is_quantized(value)), None)
    found = _own_scale(g, node, stored) or (None if taken is None else scale_of(lowered(taken)))
    if found is None:
        g.unsupported("a quantized tensor whose scale is computed when the model runs")
    scale, zero = found
    steps = g.op("QuantizeLinear", result, scale, zero)
    steps = quantized_by(g.typed(steps, stored, result.shape), output)
    return g.typed(g.op("DequantizeLinear", steps, scale, zero), torch.float32, result.shape)


def _own_scale(g: Builder, node: Node, stored: torch.dtype) -> tuple[Value, Value] | None:
    if node.op not in OWN_SCALES:
        return None
    scale, zero = OWN_SCALES[node.op]
    return g.constant(scale, torch.float32), g.constant(torch.iinfo(stored).min + zero, stored)


def quantized_by(integers: Value, output: captured.Value) -> Value:
    """Integers with the note of which captured value's quantizer made them, for the check to compare them."""
    if integers.ir is not None:
        integers.ir.meta[QUANTIZED_BY] = output
    return integers


def quantizer_behind(result: Any) -> tuple[ir.Node, ir.Value] | None:
    """The QuantizeLinear behind a result that DequantizeLinear gives, and the integers that the latter reads."""
    value = before_casts(result.ir) if isinstance(result, Value) else None
    node = None if value is None else value.producer()
    integers = node.inputs[0] if node is not None and node.op_type == "DequantizeLinear" else None
    node = None if integers is None else integers.producer()
    if node is not None and node.op_type == "Clip" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return (node, integers) if integers is not None and node is not None and node.op_type == "QuantizeLinear" else None


def before_casts(value: ir.Value | None) -> ir.Value | None:
    while value is not None and (node := value.producer()) is not None and node.op_type in ("Cast", "Identity"):
        value = node.inputs[0]
    return value


def note_rounded(results: Sequence[Any], as_torch: Callable[[], Sequence[torch.Tensor]]) -> None:
    """Note on the quantizers of constants what torch makes of these: another last bit is another integer at times."""
    for index, result in enumerate(results):
        found = quantizer_behind(result)
        if found is not None:
            found[0].outputs[0].meta[ROUNDED_CONSTANT] = functools.partial(_one, as_torch, index)


def _one(results: Callable[[], Sequence[torch.Tensor]], index: int) -> torch.Tensor:
    return results()[index]


def scale_of(x: Value) -> tuple[Value, Value] | None:
    """The scale and zero point of a quantized tensor; None if they are not one number each."""
    before = _dequantizer(x)
    if before is None or len(before.inputs) < 3:
        return None
    scale, zero = before.inputs[1:]
    if scale is None or zero is None or scale.shape is None or scale.shape.rank() != 0:
        return None
    stored = torch.int8 if zero.dtype == ir.DataType.INT8 else torch.uint8
    return Value(scale, torch.float32, (), data=_content(scale)), Value(zero, stored, (), data=_content(zero))


def integers_of(x: Value) -> Value | None:
    """The integers of a quantized tensor."""
    before = _dequantizer(x)
    if before is None or before.inputs[0] is None:
        return None
    stored = torch.int8 if before.inputs[0].dtype == ir.DataType.INT8 else torch.uint8
    return Value(before.inputs[0], stored, x.shape)


def quantized_constant(
    g: Builder, content: torch.Tensor, name: str | None = None, shape: Sequence[int] | None = None
) -> Value:
    """The floats of a quantized tensor that is stored, perhaps in another shape."""
    if content.dtype not in STORED:
        g.unsupported(f"quantized tensors of {content.dtype}")
    stored, axis = STORED[content.dtype], None
    scale, zero = torch.tensor(0.0), torch.tensor(0)
    if content.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale, zero = torch.tensor(content.q_scale()), torch.tensor(content.q_zero_point())
    elif content.qscheme() == torch.per_channel_affine:
        g.require(FIRST_BY_CHANNEL, "a scale for each channel")
        scale, zero = content.q_per_channel_scales(), content.q_per_channel_zero_points()
        axis = content.q_per_channel_axis()
    else:
        g.unsupported(f"quantized tensors with {content.qscheme()}")
    integers = content.int_repr() if shape is None else content.int_repr().reshape(tuple(shape))
    source = g.constant(integers) if name is None else g.initializer(name, integers)
    parameters = g.constant(scale, torch.float32), g.constant(zero, stored)
    return g.typed(g.op("DequantizeLinear", source, *parameters, axis=axis), torch.float32, tuple(integers.shape))


def _content(value: ir.Value | None) -> torch.Tensor | None:
    return None if value is None or value.const_value is None else torch.tensor(value.const_value.numpy())


def _is_quantized(value: captured.Value) -> bool:
    return value.is_tensor and value.dtype in QUANTIZED


def _dequantizer(value: Value) -> ir.Node | None:
    """The DequantizeLinear that gives a value."""
    node = None if value.ir is None else value.ir.producer()
    return node if node is not None and node.op_type == "DequantizeLinear" else None
