"""Merging of nodes that compute the same."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Mapping, MutableMapping

import onnx_ir as ir

from onnxport.optimize.context import Context
from onnxport.optimize.rewrite import become, can_replace, discard, replace
from onnxport.optimize.traversal import subgraphs_of

# Dropout is deterministic in inference, but there it is removed anyway.
_RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
_COMPARED_TENSOR_BYTES = 1024

_Seen = MutableMapping[Hashable, ir.Node]


class MergeCommonSubexpressions(ir.passes.InPlacePass):
    """Lets one node serve for all that have its operator, inputs and attributes.

    Rules:
        1. Inputs are compared as values, attributes by type and content, tensors among them up to 1 KiB.
        2. A node of a subgraph may be served by one of an enclosing graph, never the other way round, and never by
           one of a sibling subgraph.
        3. A second graph output of the same value becomes an Identity.
        4. Not merged: random operators, operators with subgraphs, and those of other domains (they may be random).

    Preserves: all values; names and number of graph outputs.

    onnx_ir's CommonSubexpressionEliminationPass merges Bernoulli and Dropout nodes, which draw random numbers each for
    itself, and does not enter subgraphs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=_merge(Context(model), model.graph, {}))


def _merge(context: Context, graph: ir.Graph, seen: _Seen) -> bool:
    modified = False
    for node in graph:
        subgraphs = list(subgraphs_of(node))
        for subgraph in subgraphs:
            modified |= _merge(context, subgraph, ChainMap({}, seen))
        if not subgraphs and node.domain == "" and node.op_type not in _RANDOM:
            twin = seen.setdefault(_key(node), node)
            modified |= twin is not node and _merge_into(context, node, twin)
    return modified


def _key(node: ir.Node) -> Hashable:
    return (
        node.op_type,
        len(node.outputs),
        node.inputs,
        _attributes_key(node.attributes) if node.attributes else None,
    )


def _attributes_key(attributes: Mapping[str, ir.Attr]) -> Hashable:
    return frozenset((name, attribute.type, _content(attribute)) for name, attribute in attributes.items())


def _content(attribute: ir.Attr) -> Hashable:
    if attribute.is_ref():
        return attribute.ref_attr_name
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        if value.nbytes > _COMPARED_TENSOR_BYTES or value.dtype.is_string():
            return id(value)
        return value.dtype, tuple(value.shape), value.numpy().tobytes()
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        # repr tells 0.0 from -0.0, which == does not.
        return repr(value)
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if isinstance(value, int | str | bytes) else id(value)


def _merge_into(context: Context, node: ir.Node, twin: ir.Node) -> bool:
    pairs = list(zip(node.outputs, twin.outputs, strict=True))
    if all(can_replace(old, new) for old, new in pairs):
        for old, new in pairs:
            replace(old, new)
        discard(node)
        return True
    if len(pairs) > 1 or node.op_type == "Identity":
        return False
    become(context, node, "Identity", [twin.outputs[0]])
    return True
