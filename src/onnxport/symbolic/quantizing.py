"""Symbolic functions that quantize: the check compares their integers with those of the torch function, and a constant
that they round is stored as torch rounds it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph.interpret import evaluate
from onnxport.graph.ir import Node
from onnxport.graph.python_nodes import compute, is_special
from onnxport.lower.quantized import ROUNDED_BY, ROUNDED_CONSTANT
from onnxport.lower.value import Value


def note_quantizers(node: Node, arguments: Mapping[str, Any], results: Sequence[Any]) -> None:
    """Note on the integers of results whose translation is QuantizeLinear and DequantizeLinear of an argument, which
    captured value they are, and what torch makes of a constant."""
    given = {name: value for name, value in arguments.items() if isinstance(value, Value)}
    sources = {value.ir for value in given.values() if value.ir is not None}
    for index, (output, result) in enumerate(zip(node.outputs, results, strict=True)):
        found = _quantized(result)
        if found is None:
            continue
        quantizer, integers = found
        if _before_casts(quantizer.inputs[0]) not in sources:
            continue
        integers.meta[ROUNDED_BY] = output
        if all(value.data is not None for value in given.values()):
            constants = {name: value.data if isinstance(value, Value) else value for name, value in arguments.items()}
            quantizer.outputs[0].meta[ROUNDED_CONSTANT] = functools.partial(_rounded, node, constants, index)


def _quantized(result: Any) -> tuple[ir.Node, ir.Value] | None:
    """The QuantizeLinear behind a result that DequantizeLinear gives, and the integers that the latter reads."""
    value = _before_casts(result.ir) if isinstance(result, Value) else None
    node = None if value is None else value.producer()
    integers = node.inputs[0] if node is not None and node.op_type == "DequantizeLinear" else None
    node = None if integers is None else integers.producer()
    if node is not None and node.op_type == "Clip" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return (node, integers) if integers is not None and node is not None and node.op_type == "QuantizeLinear" else None


def _before_casts(value: ir.Value | None) -> ir.Value | None:
    while value is not None and (node := value.producer()) is not None and node.op_type in ("Cast", "Identity"):
        value = node.inputs[0]
    return value


def _rounded(node: Node, constants: Mapping[str, Any], index: int) -> torch.Tensor:
    """What torch makes of the constant, as floats."""
    with torch.no_grad():
        results = compute(node, dict(constants)) if is_special(node) else evaluate(node, dict(constants))
        return torch.as_tensor(results[index])
