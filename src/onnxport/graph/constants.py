"""Values that depend on no input: what they hold, computed by torch where somebody asks for it."""

from __future__ import annotations

import torch

from onnxport.graph.interpret import evaluate, writes
from onnxport.graph.ir import QUANTIZED, Graph, Node, TensorType, Value, map_values
from onnxport.graph.randomness import is_random


class Constants:
    """What nodes of a graph give that have only parameters and constants to compute with."""

    def __init__(self, graph: Graph) -> None:
        self._fixed: set[Value] = {value for value in graph.parameters if value.data is not None}
        self._nodes: set[Node] = set()
        for node in graph.block.all_nodes():
            if _is_fixed(node) and all(value in self._fixed or value.data is not None for value in node.values()):
                self._nodes.add(node)
                self._fixed.update(node.outputs)

    def __contains__(self, node: Node) -> bool:
        return node in self._nodes

    def results(self, node: Node) -> list[torch.Tensor]:
        """What one of these nodes gives."""
        known: dict[Value, torch.Tensor] = {}
        with torch.no_grad():
            for step in self._steps(node):
                arguments = {
                    name: map_values(argument, lambda value: known.get(value, value.data))
                    for name, argument in step.inputs.items()
                }
                known.update(zip(step.outputs, evaluate(step, arguments), strict=True))
        return [known[output] for output in node.outputs]

    def _steps(self, node: Node) -> list[Node]:
        """The nodes that lead from parameters to this one's results, in an order in which they can be computed."""
        order: dict[Node, None] = {}
        left = [(node, False)]
        while left:
            step, is_ready = left.pop()
            if is_ready:
                order[step] = None
            elif step not in order:
                left.append((step, True))
                left += [(value.node, False) for value in step.values() if value.node is not None]
        return list(order)


def _is_fixed(node: Node) -> bool:
    """Whether torch itself defines the operator, and it gives the same tensors each time that it gets the same ones."""
    is_pure = node.op.startswith("aten::") and not (node.blocks or is_random(node) or writes(node))
    return is_pure and all(map(_is_fixed_tensor, node.outputs))


def _is_fixed_tensor(value: Value) -> bool:
    """A tensor of fixed shape; quantized ones have a form of their own in the file."""
    kind = value.type
    return (
        isinstance(kind, TensorType) and kind.dtype not in QUANTIZED and all(type(size) is int for size in kind.shape)
    )
