"""Symbolic functions that quantize: the check compares their integers with those of the torch function, and a constant
that they round is stored as torch rounds it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxport.graph.interpret import evaluate
from onnxport.graph.ir import Node
from onnxport.graph.python_nodes import compute, is_special
from onnxport.lower.quantized import ROUNDED_BY, before_casts, note_rounded, quantizer_behind
from onnxport.lower.value import Value


def note_quantizers(node: Node, arguments: Mapping[str, Any], results: Sequence[Any]) -> None:
    """Note on the integers of results whose translation is QuantizeLinear and DequantizeLinear of an argument, which
    captured value they are, and what torch makes of a constant."""
    given = [value for value in arguments.values() if isinstance(value, Value)]
    sources = {value.ir for value in given if value.ir is not None}
    found = [quantizer_behind(result) for result in results]
    for output, quantizer in zip(node.outputs, found, strict=True):
        if quantizer is not None and before_casts(quantizer[0].inputs[0]) in sources:
            quantizer[1].meta[ROUNDED_BY] = output
    if any(found) and all(value.data is not None for value in given):
        constants = {name: value.data if isinstance(value, Value) else value for name, value in arguments.items()}
        note_rounded(results, functools.partial(_by_torch, node, constants))


def _by_torch(node: Node, constants: Mapping[str, Any]) -> Sequence[torch.Tensor]:
    with torch.no_grad():
        return compute(node, dict(constants)) if is_special(node) else evaluate(node, dict(constants))
