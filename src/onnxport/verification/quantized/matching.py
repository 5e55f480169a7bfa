"""Which integers of a file are those of which quantizer of the captured graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnx_ir as ir
import torch

from onnxport.graph.ir import Node, Value
from onnxport.verification.quantized.quantizers import FileGrid, is_quantizer

# What the converters note on the integers that they make.
QUANTIZED_BY = "quantized_by"
# The same for functions of the user, which show their result alone.
ROUNDED_BY = "rounded_by"


@dataclass(frozen=True)
class Match:
    """The integers of a quantizer, by their name in the file; or the floats that they become, if ``floats``.

    ``value`` is what the quantizer gives in the captured graph. ``grid`` is that of a function of the user.
    """

    name: str
    value: Value
    floats: bool = False
    grid: FileGrid | None = None

    @property
    def node(self) -> Node:
        assert self.value.node is not None
        return self.value.node


def own_matches(model: ir.Model) -> list[Match]:
    """The integers that a translation made, in the order of the graph."""
    found = []
    for node in model.graph:
        for value in node.outputs:
            origin = value.meta.get(QUANTIZED_BY)
            if isinstance(origin, Value) and is_quantizer(origin) and value.name is not None:
                found.append(Match(value.name, origin))
                continue
            origin = value.meta.get(ROUNDED_BY)
            grid = _grid(node) if isinstance(origin, Value) else None
            if grid is not None and value.name is not None and isinstance(origin, Value):
                found.append(Match(value.name, origin, grid=grid))
    return found


def _grid(node: ir.Node | None) -> FileGrid | None:
    """The scale and zero point with which integers were made, if they are constant."""
    while node is not None and node.op_type != "QuantizeLinear":
        source = node.inputs[0] if node.inputs else None
        node = None if source is None else source.producer()
    if node is None or node.inputs[1] is None or node.inputs[1].const_value is None:
        return None
    scale, zero = node.inputs[1].const_value.numpy(), np.zeros(())
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        if node.inputs[2].const_value is None:
            return None
        zero = node.inputs[2].const_value.numpy()
    axis = node.attributes.get_int("axis", 1) if scale.ndim else None
    return FileGrid(torch.tensor(scale), torch.tensor(zero.astype(np.float64)), axis)


def matched(own: Sequence[Match], file: onnx.ModelProto) -> list[Match]:
    """The same for a file that was made earlier: by name, else in order if there are as many; else none."""
    integers = list(integers_of(file.graph))
    if {match.name for match in own} <= set(integers):
        return list(own)
    if len(own) != len(integers):
        return []
    return [replace(match, name=name) for name, match in zip(integers, own, strict=True)]


def integers_of(graph: onnx.GraphProto) -> Mapping[str, None]:
    """What QuantizeLinear and the Clip behind it give, in the order of the graph."""
    found: dict[str, None] = {}
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            found[node.output[0]] = None
        elif node.op_type == "Clip" and node.input[0] in found:
            del found[node.input[0]]
            found[node.output[0]] = None
    return found
