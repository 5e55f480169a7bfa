"""Which integers of a file are those of which quantizer of the captured graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxport.graph.ir import Node, Value
from onnxport.verification.quantized.quantizers import is_quantizer

# What the converters note on the integers that they make.
QUANTIZED_BY = "quantized_by"


@dataclass(frozen=True)
class Match:
    """The integers of a quantizer, by their name in the file; or the floats that they become, if ``floats``.

    ``value`` is what the quantizer gives in the captured graph.
    """

    name: str
    value: Value
    floats: bool = False

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
    return found


def matched(own: Sequence[Match], file: onnx.ModelProto) -> list[Match]:
    """The same for a file that was made earlier: by name, else in order if there are as many; else none."""
    integers = list(integers_of(file.graph))
    if {match.name for match in own} <= set(integers):
        return list(own)
    if len(own) != len(integers):
        return []
    return [Match(name, match.value) for name, match in zip(integers, own, strict=True)]


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
