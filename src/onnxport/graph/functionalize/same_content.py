"""Nodes whose result has the same content as their argument: they go once nothing is written any more."""

from __future__ import annotations

from onnxport.graph.functionalize.views import COPIES, is_identity, source_name
from onnxport.graph.ir import Block, Node, Value, map_values


def remove_aliases(block: Block, own: frozenset[str] = frozenset()) -> None:
    """Drop nodes that only return their argument: copies and views of the whole. Valid once nothing is written."""
    _remove_aliases(block, own, {})


def _remove_aliases(block: Block, own: frozenset[str], replaced: dict[Value, Value]) -> None:
    kept = []
    for node in block.nodes:
        if any(value in replaced for value in node.values()):
            node.inputs = {
                name: map_values(argument, lambda v: replaced.get(v, v)) for name, argument in node.inputs.items()
            }
        for inner in node.blocks:
            _remove_aliases(inner, own, replaced)
        source = None if node.op in own else _same_content(node)
        if source is None:
            kept.append(node)
        else:
            replaced[node.outputs[0]] = source
    block.nodes[:] = kept
    block.outputs[:] = [replaced.get(value, value) for value in block.outputs]


def _same_content(node: Node) -> Value | None:
    """The argument with the same content as the node's result."""
    name = "self" if node.op in COPIES else source_name(node)
    source = None if name is None else node.inputs.get(name)
    if not isinstance(source, Value):
        return None
    if node.op in COPIES:
        return source if node.outputs[0].type == source.type else None
    return source if is_identity(node, source) else None
