"""Carried values that are one tensor in all iterations: an in-place operator returns the tensor that it was given.

Inside the loop such a value is the tensor that it is before the loop; it is not carried.
"""

from __future__ import annotations

from onnxport.graph.functionalize.writes import REBINDS, VIEWS_IN_PLACE
from onnxport.graph.interpret import writes
from onnxport.graph.ir import Block, Node, Value, map_values


def remove_unchanged_carries(block: Block) -> None:
    _visit(block, {})


def _visit(block: Block, replaced: dict[Value, Value]) -> None:
    for node in block.nodes:
        if replaced:
            node.inputs = {
                name: map_values(argument, lambda v: replaced.get(v, v)) for name, argument in node.inputs.items()
            }
        if node.op == "prim::Loop":
            _remove(node, replaced)
        for inner in node.blocks:
            _visit(inner, replaced)
    block.outputs[:] = [replaced.get(value, value) for value in block.outputs]


def _remove(loop: Node, replaced: dict[Value, Value]) -> None:
    body, carried = loop.blocks[0], list(loop.inputs["carried"])
    for index in reversed(range(len(carried))):
        entry = body.inputs[index + 1]
        if entry.is_tensor and _written_tensor(body.outputs[index + 1], body) is entry:
            replaced[entry] = replaced[loop.outputs[index]] = carried.pop(index)
            del body.inputs[index + 1], body.outputs[index + 1], loop.outputs[index]
    loop.inputs = {**loop.inputs, "carried": carried}


def _written_tensor(value: Value, body: Block) -> Value:
    """The tensor that in-place operators of the body wrote to and returned as this value."""
    made = {id(output): node for node in body.nodes for output in node.outputs}
    while (node := made.get(id(value))) is not None and _returns_target(node):
        value = node.inputs["self"]
    return value


def _returns_target(node: Node) -> bool:
    is_in_place = writes(node) and node.op.endswith("_") and node.op not in VIEWS_IN_PLACE and node.op not in REBINDS
    return is_in_place and len(node.outputs) == 1 and node.outputs[0].type == node.inputs["self"].type
