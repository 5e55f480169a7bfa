"""Operators on a quantized tensor with a quantized result of the same scale: pools, means, activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph import ir as captured
from onnxport.graph.ir import Node
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import QUANTIZED
from onnxport.lower.value import Value

# The metadata that identifies the quantizer of some integers.
QUANTIZED_BY = "quantized_by"
STORED = {torch.quint8: torch.uint8, torch.qint8: torch.int8}
# Activations whose results have a scale of their own, and which integer stands for 0: so many above the least.
OWN_SCALES = {"aten::sigmoid": (1 / 256, 0), "aten::hardsigmoid": (1 / 256, 0), "aten::tanh": (1 / 128, 128)}


def requantized(g: Builder, node: Node, arguments: dict[str, Any], results: Sequence[Any]) -> Sequence[Any]:
    """The results of a node; rounded again where torch has the first as a quantized tensor.

    That has its input's scale, but for activations with a scale of their own.
    """
    dtype = node.outputs[0].dtype if node.outputs and node.outputs[0].is_tensor else None
    x = arguments.get("self")
    if dtype is None or dtype not in QUANTIZED or not isinstance(x, Value) or not _is_quantized(node):
        return results
    found = _own_scale(g, node, STORED[dtype]) or _scale_of(x, STORED[dtype])
    if found is None:
        return results
    scale, zero = found
    steps = g.op("QuantizeLinear", results[0], scale, zero)
    steps = g.typed(steps, STORED[dtype], results[0].shape)
    assert steps.ir is not None
    steps.ir.meta[QUANTIZED_BY] = node
    floats = g.typed(g.op("DequantizeLinear", steps, scale, zero), torch.float32, results[0].shape)
    return [floats, *results[1:]]


def _own_scale(g: Builder, node: Node, stored: torch.dtype) -> tuple[Value, Value] | None:
    if node.op not in OWN_SCALES:
        return None
    scale, zero = OWN_SCALES[node.op]
    return g.constant(scale, torch.float32), g.constant(torch.iinfo(stored).min + zero, stored)


def _scale_of(x: Value, stored: torch.dtype) -> tuple[Value, Value] | None:
    """The scale and zero point of a quantized tensor."""
    before = _dequantizer(x.ir)
    if before is None:
        return None
    return Value(before.inputs[1], torch.float32, ()), Value(before.inputs[2], stored, ())


def _is_quantized(node: Node) -> bool:
    """Whether a node takes a quantized tensor."""
    argument = node.inputs.get("self")
    return isinstance(argument, captured.Value) and argument.is_tensor and argument.dtype in QUANTIZED


def _dequantizer(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear that gives a value."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == "DequantizeLinear" and len(node.inputs) > 2 else None
