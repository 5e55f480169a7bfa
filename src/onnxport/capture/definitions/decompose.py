"""Replaces operators without a converter by torch's own decompositions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from onnxport import compat
from onnxport.capture.definitions import definition
from onnxport.graph.equivalents import equivalent
from onnxport.graph.ir import Block, Graph, Node, Value, map_values

MAX_DEPTH = 6


def decompose(graph: Graph, find: Callable[[Node], Any], preferred: Collection[str] = ()) -> None:
    """Replace each operator that ``find`` does not know by torch's decomposition, if there is one.

    An operator that is only another name of a ``preferred`` one becomes that: ``inverse`` is ``linalg_inv``.
    """
    if preferred:
        _rename(graph, preferred)
    for block in [graph.block, *(block for node in graph.block.all_nodes() for block in node.blocks)]:
        if _decompose_block(graph, block, find):
            block.remove_dead_nodes()


def _rename(graph: Graph, preferred: Collection[str]) -> None:
    others: set[str] = set()  # those that are no other names
    for block in [graph.block, *(block for node in graph.block.all_nodes() for block in node.blocks)]:
        nodes: list[Node] = []
        for node in block.nodes:
            known = node.blocks or node.op in preferred or node.op in others
            recorded = None if known else _definition(graph, node)
            if recorded is not None and [inner.op in preferred for inner in recorded[0].block.nodes] == [True]:
                nodes += _spliced(node, *recorded)
            else:
                nodes.append(node)
                others.add(node.op)
        block.nodes[:] = nodes


def _decompose_block(graph: Graph, block: Block, find: Callable[[Node], Any]) -> bool:
    """Whether something was replaced."""
    for depth in range(MAX_DEPTH):
        nodes: list[Node] = []
        changed = False
        for node in block.nodes:
            known = node.blocks or find(node)
            parts = None if known else _equivalent(node, find) or _parts(graph, node)
            changed = changed or parts is not None
            nodes += parts if parts is not None else [node]
        block.nodes[:] = nodes
        if not changed:
            return depth > 0
    return True


def _equivalent(node: Node, find: Callable[[Node], Any]) -> list[Node] | None:
    """The same by other operators. Decompositions yield ``prims``: one without a converter would come back again."""
    nodes = equivalent(node)
    if nodes is not None and node.op.startswith("prims::") and not all(map(find, nodes)):
        return None
    return nodes


def _parts(graph: Graph, node: Node) -> list[Node] | None:
    """Nodes with the same outputs as one node; None if torch has no decomposition for it."""
    recorded = _definition(graph, node)
    return None if recorded is None else _spliced(node, *recorded)


def _definition(graph: Graph, node: Node) -> tuple[Graph, list[Value]] | None:
    function = compat.decomposition(node.op, node.overload)
    return None if function is None else definition.recorded(function, node, graph.captures)


def _spliced(node: Node, inner: Graph, tensors: Sequence[Value]) -> list[Node]:
    """The inner nodes, with the inner graph's inputs and outputs replaced by the outer values."""
    replaced = dict(zip(inner.block.inputs, tensors, strict=True))
    made = {value for inner_node in inner.block.nodes for value in inner_node.outputs}
    nodes = list(inner.block.nodes)
    for outer, result in zip(node.outputs, inner.block.outputs, strict=True):
        if result in made and result not in replaced and result.type == outer.type:
            replaced[result] = outer
        else:
            nodes.append(node.like("aten::alias", {"self": result}, [outer]))
    for inner_node in nodes:
        inner_node.inputs = {
            name: map_values(argument, lambda value: replaced.get(value, value))
            for name, argument in inner_node.inputs.items()
        }
        inner_node.outputs = [replaced.get(value, value) for value in inner_node.outputs]
        inner_node.scope, inner_node.source = node.scope, node.source
        for value in inner_node.outputs:
            value.node = inner_node
    return nodes
