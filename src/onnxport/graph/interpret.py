"""Runs a captured graph with torch itself, node by node: what every later stage must agree with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from onnxport.graph.ir import Argument, Block, Graph, Node, Value, Varying, schema_of

Observer: TypeAlias = Callable[[Node, list[Any]], None]

# Nodes that have no schema in a trace, and the overload that computes them.
UNBOUND_OVERLOADS = {"prim::NumToTensor": "Scalar"}
# Operators that torch computes only where their argument lies in memory as it did when the model ran.
NEEDS_LAYOUT = frozenset({"aten::view", "aten::view_as", "aten::unflatten", "aten::as_strided"})


def run(
    graph: Graph, inputs: Sequence[torch.Tensor], *, capture: int = 0, on_node: Observer | None = None
) -> list[Any]:
    """The outputs of the graph; ``on_node`` sees each node with its results as they are computed.

    Constants that differ between captures take their value in ``capture``. Neither the inputs nor the parameters are
    changed, whatever the graph writes to.
    """
    return _Interpreter(mutates(graph.block), capture, on_node).block(graph.block, inputs)


def evaluate(node: Node, arguments: dict[str, Any]) -> list[Any]:
    """The results of one node called with these arguments, in the order of its outputs."""
    result = operator(node.op, node.overload)(**arguments)
    if result is None:
        return []
    return list(result) if isinstance(result, (list, tuple)) else [result]


def mutates(block: Block) -> bool:
    """Whether a node of the block writes to its arguments."""
    return any(writes(node) for node in block.nodes)


def writes(node: Node) -> bool:
    return _writes(node.op, node.overload)


@functools.cache
def operator(op: str, overload: str) -> Callable[..., Any]:
    """torch's function for an operator."""
    namespace, _, name = op.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    function: Callable[..., Any] = getattr(packet, overload or UNBOUND_OVERLOADS.get(op, "default"))
    return function


@functools.cache
def has_tag(op: str, overload: str, tag: torch.Tag) -> bool:
    """What torch says of an operator: that it works element by element, that it draws random numbers."""
    return schema_of(op, overload) is not None and tag in getattr(operator(op, overload), "tags", ())


@functools.cache
def _writes(op: str, overload: str) -> bool:
    schema = schema_of(op, overload)
    return schema is not None and schema.mutates


class _Interpreter:
    """One run: the content of each value computed so far."""

    def __init__(self, mutates: bool, capture: int, on_node: Observer | None) -> None:
        self._mutates = mutates
        self._capture = capture
        self._on_node = on_node
        self._contents: dict[Value, Any] = {}

    def block(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        for value, content in zip(block.inputs, inputs, strict=True):
            self._contents[value] = content.clone() if self._mutates else content
        for node in block.nodes:
            results = evaluate(node, self._arguments(node))
            self._contents.update(zip(node.outputs, results, strict=True))
            if self._on_node is not None:
                self._on_node(node, results)
        return [self._content(value) for value in block.outputs]

    def _arguments(self, node: Node) -> dict[str, Any]:
        arguments = {name: self._argument(argument) for name, argument in node.inputs.items()}
        if node.op in NEEDS_LAYOUT and not self._mutates:
            # Without mutation a value is its content alone, and copies that only change the layout are gone.
            arguments["self"] = arguments["self"].contiguous()
        return arguments

    def _argument(self, argument: Argument) -> Any:
        if isinstance(argument, Value):
            return self._content(argument)
        if isinstance(argument, Varying):
            return argument.at[self._capture]
        if isinstance(argument, (list, tuple)):
            return [self._argument(element) for element in argument]
        return argument

    def _content(self, value: Value) -> Any:
        if value.data is not None and value not in self._contents:
            self._contents[value] = value.data.clone() if self._mutates else value.data
        return self._contents[value]
