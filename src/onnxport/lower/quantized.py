"""Operators that take a quantized tensor and give one with the same scale: pools, means, activations."""

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

# What the integers of a quantizer know it by.
QUANTIZED_BY = "quantized_by"
STORED = {torch.quint8: torch.uint8, torch.qint8: torch.int8}


def requantized(g: Builder, node: Node, arguments: dict[str, Any], results: Sequence[Any]) -> Sequence[Any]:
    """The results of a node; rounded again where torch has the first as a quantized tensor, with its input's scale."""
    dtype = node.outputs[0].dtype if node.outputs and node.outputs[0].is_tensor else None
    x = arguments.get("self")
    if dtype is None or dtype not in QUANTIZED or not isinstance(x, Value) or not _is_quantized(node):
        return results
    before = _dequantizer(x.ir)
    if before is None:
        return results
    scale, zero = Value(before.inputs[1], torch.float32, ()), Value(before.inputs[2], STORED[dtype], ())
    steps = g.op("QuantizeLinear", results[0], scale, zero)
    steps = g.typed(steps, STORED[dtype], results[0].shape)
    assert steps.ir is not None
    steps.ir.meta[QUANTIZED_BY] = node
    floats = g.typed(g.op("DequantizeLinear", steps, scale, zero), torch.float32, results[0].shape)
    return [floats, *results[1:]]


def _is_quantized(node: Node) -> bool:
    """Whether a node takes a quantized tensor."""
    given = node.inputs.get("self")
    return isinstance(given, captured.Value) and given.is_tensor and given.dtype in QUANTIZED


def _dequantizer(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear that gives a value."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == "DequantizeLinear" and len(node.inputs) > 2 else None
