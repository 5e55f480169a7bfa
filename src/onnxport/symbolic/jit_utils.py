"""Blocks of an If or Loop that symbolic functions write node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.errors import CustomOperatorError
from onnxport.symbolic.objects.graph import GraphContext
from onnxport.symbolic.objects.nodes import OnnxNode
from onnxport.symbolic.objects.subgraphs import Block
from onnxport.symbolic.objects.values import Value

__all__ = ["GraphContext", "_add_block", "_add_input_to_block", "_add_output_to_block", "add_op_with_blocks"]


def add_op_with_blocks(
    graph_context: GraphContext, opname: str, *inputs: Any, outputs: int = 1, n_blocks: int = 1, **attributes: Any
) -> tuple[Any, tuple[Block, ...], OnnxNode]:
    """A node with empty blocks: its values, the graph objects of its blocks, and the node."""
    made = graph_context.op(opname, *inputs, outputs=outputs, **attributes)
    first: Value = made if outputs == 1 else made[0]
    node = first.node()
    if not isinstance(node, OnnxNode):
        raise CustomOperatorError(f"{opname} has no blocks")
    return made, tuple(node.addBlock() for _ in range(n_blocks)), node


def _add_block(node: OnnxNode) -> Block:
    """Add a block to a node: ``block.op(...)`` writes into it."""
    return node.addBlock()


def _add_input_to_block(block: Block) -> Value:
    """Add an input to a block; those of a Loop have the types of its arguments."""
    return block.add_input()


def _add_output_to_block(block: Block, value: Any) -> int:
    """Add a result to a block."""
    return block.add_output(value)


def _add_outputs_to_block(block: Block, values: Sequence[Any]) -> None:
    for value in values:
        block.add_output(value)
