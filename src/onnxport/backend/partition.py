"""Splits a graph into as few and as large parts for ONNX Runtime as possible, and the nodes in between."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx

from onnxport.backend.torch_nodes import is_torch_node


class Side(enum.Enum):
    """What computes a node: ONNX Runtime, torch, or Python (control flow with torch nodes inside)."""

    RUNTIME = enum.auto()
    TORCH = enum.auto()
    CONTROL = enum.auto()


@dataclass(frozen=True)
class Part:
    """Nodes that are computed together, in order. Parts for the runtime may be large, others have one node."""

    side: Side
    nodes: tuple[onnx.NodeProto, ...]

    def reads(self) -> list[str]:
        """The outside values that it needs, also in subgraphs of its nodes."""
        made = {name for node in self.nodes for name in node.output}
        return list(dict.fromkeys(name for node in self.nodes for name in reads(node) if name not in made))

    def writes(self) -> list[str]:
        return [name for node in self.nodes for name in node.output if name]


def partition(nodes: Sequence[onnx.NodeProto]) -> list[Part]:
    """The parts in a valid order.

    Alternately, all nodes of one kind that can be computed become a part; that gives the fewest parts for each start.
    """
    return min((_waves(nodes, first) for first in (True, False)), key=_runtime_parts)


def needed(nodes: Sequence[onnx.NodeProto], wanted: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that some wanted value depends on, in their order."""
    alive = set(wanted)
    kept = []
    for node in reversed(nodes):
        if not alive.isdisjoint(node.output):
            kept.append(node)
            alive.update(reads(node))
    return kept[::-1]


def side_of(node: onnx.NodeProto) -> Side:
    if is_torch_node(node):
        return Side.TORCH
    return Side.CONTROL if any(has_torch_nodes(graph.node) for graph in subgraphs(node)) else Side.RUNTIME


def has_torch_nodes(nodes: Sequence[onnx.NodeProto]) -> bool:
    return any(side_of(node) is not Side.RUNTIME for node in nodes)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads from the graph around it."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        yield from outer_reads(graph)


def outer_reads(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that a subgraph takes from the graphs around it."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def _waves(nodes: Sequence[onnx.NodeProto], runtime_first: bool) -> list[Part]:
    sides = [side_of(node) for node in nodes]
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    sources = [{makers[name] for name in reads(node) if name in makers} for node in nodes]
    done: set[int] = set()
    waiting = list(range(len(nodes)))
    parts: list[Part] = []
    runtime_turn = runtime_first
    while waiting:
        taken = []
        for index in waiting:  # in topological order, so one pass is enough
            if (sides[index] is Side.RUNTIME) == runtime_turn and sources[index] <= done:
                done.add(index)
                taken.append(index)
        waiting = [index for index in waiting if index not in done]
        if runtime_turn and taken:
            parts.append(Part(Side.RUNTIME, tuple(nodes[index] for index in taken)))
        else:
            parts += [Part(sides[index], (nodes[index],)) for index in taken]
        runtime_turn = not runtime_turn
    return parts


def _runtime_parts(parts: Sequence[Part]) -> int:
    return sum(part.side is Side.RUNTIME for part in parts)
