"""torch's own definitions of operators that have no translation, recorded in place of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture import definition
from onnxport.capture.align import align
from onnxport.capture.reader import read
from onnxport.capture.selected import records
from onnxport.errors import DynamicAxisError
from onnxport.graph.dims import values
from onnxport.graph.equivalents import equivalent
from onnxport.graph.functional import functionalize
from onnxport.graph.ir import BAKED, Block, Graph, Node, Value, Varying, map_values

MAX_DEPTH = 6
# What a decomposition raises when it does not take these arguments.
FAILURES = (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, KeyError, DynamicAxisError)


def decompose(graph: Graph, find: Callable[[Node], Any]) -> None:
    """Replace each operator that ``find`` does not know by what torch defines it as, where torch does."""
    for block in [graph.block, *(block for node in graph.block.all_nodes() for block in node.blocks)]:
        if _decompose_block(graph, block, find):
            block.remove_dead_nodes()


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
    """The same by other operators. Primitives come from definitions: one without a translation would come again."""
    nodes = equivalent(node)
    if nodes is not None and node.op.startswith("prims::") and not all(map(find, nodes)):
        return None
    return nodes


def _parts(graph: Graph, node: Node) -> list[Node] | None:
    """The nodes that stand for one, yielding the same values; None if torch has no definition for it."""
    function = compat.decomposition(node.op, node.overload)
    if function is None or any(isinstance(a, Varying) for a in node.inputs.values()):
        return None
    if records():
        recorded = definition.recorded(function, node, graph.captures)
        return None if recorded is None else _spliced(node, *recorded)
    tensors = list(dict.fromkeys(value for value in node.values() if value.is_tensor))
    if any(not value.is_tensor for value in node.values()):
        return None
    try:
        traces = [_trace(function, node, tensors, capture, graph.captures) for capture in range(graph.captures)]
        inner = align(traces, len(tensors), [])
        functionalize(inner)
    except FAILURES:
        return None
    if any(made.op == BAKED for made in inner.block.nodes):
        return None  # the definition computes with sizes in a way that a trace does not show
    return _spliced(node, inner, tensors)


def _trace(function: Callable[..., Any], node: Node, tensors: list[Value], capture: int, captures: int) -> Any:
    schema = node.schema
    assert schema is not None
    examples = [
        torch.zeros([values(size, captures)[capture] for size in value.shape], dtype=value.dtype) for value in tensors
    ]

    def run_flat(*flat: torch.Tensor) -> Any:
        given = dict(zip(tensors, flat, strict=True))
        arguments = {name: map_values(argument, given.__getitem__) for name, argument in node.inputs.items()}
        # By position where the schema allows it: a definition may call its parameters otherwise.
        positional = [arguments.pop(p.name) for p in schema.parameters if not p.keyword_only and p.name in arguments]
        result = function(*positional, **arguments)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    with torch.no_grad():
        return read(compat.trace_graph(run_flat, examples))


def _spliced(node: Node, inner: Graph, tensors: Sequence[Value]) -> list[Node]:
    """The inner nodes with the outer values in place of the inner graph's inputs and outputs."""
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
