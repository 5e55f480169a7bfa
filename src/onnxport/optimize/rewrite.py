"""Edits of a graph for the passes; outputs keep their names and stay distinct values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from onnxport.optimize.context import Context
from onnxport.optimize.traversal import all_nodes, nodes_within

Rewrite = Callable[[Context, ir.Node], bool]
"""Tries to improve one node; returns whether it did."""

Equal = Callable[[Context, ir.Node], ir.Value | None]
"""Finds an existing value that equals a node's first output."""


def replacing(find_equal: Equal) -> Rewrite:
    """The rewrite that drops a node in favour of the value equal to its first output."""

    def rewrite(context: Context, node: ir.Node) -> bool:
        value = find_equal(context, node)
        return value is not None and bypass(context, node, value)

    return rewrite


def rewrite_nodes(context: Context, rules: Mapping[str, Sequence[Rewrite]]) -> bool:
    """Applies the rules of each ONNX operator, in graph order, to every node until none applies."""
    modified = False
    for node in all_nodes(context.model.graph):
        while node.op_type in rules and node.graph is not None and node.domain == "":
            if not any(rule(context, node) for rule in rules[node.op_type]):
                break
            modified = True
    return modified


def can_replace(old: ir.Value, new: ir.Value) -> bool:
    """Whether users of `old` may read `new`: a graph output has to be the output of a node of its own in its graph."""
    if not old.is_graph_output():
        return True
    return new.producer() is not None and new.graph is old.graph and not new.is_graph_output()


def replace(old: ir.Value, new: ir.Value) -> None:
    """Lets every user of `old` read `new`; as a graph output `new` takes over the name and the declared type."""
    if old.is_graph_output():
        new.name = old.name
        new.type = old.type if old.type is not None else new.type
        new.shape = old.shape if old.shape is not None else new.shape
        new.metadata_props.update(old.metadata_props)
    old.replace_all_uses_with(new, replace_graph_outputs=True)


def bypass(context: Context, node: ir.Node, value: ir.Value) -> bool:
    """Removes a node whose first output equals `value`; an Identity stays where a graph output needs a node."""
    if can_replace(node.outputs[0], value):
        replace(node.outputs[0], value)
        discard(node)
        return True
    if node.op_type == "Identity":
        return False
    become(context, node, "Identity", [value])
    return True


def become(
    context: Context,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Iterable[ir.Attr] = (),
) -> None:
    """Turns a node into another one that yields the same first output."""
    _rename(context, node, op_type)
    node.op_type = op_type
    node.attributes.clear()
    node.attributes.update({attribute.name: attribute for attribute in attributes})
    node.resize_outputs(1)
    set_inputs(node, inputs)


def _rename(context: Context, node: ir.Node, op_type: str) -> None:
    """Puts the new operator into a name like `fc/MatMul_1`, of the node and of an output named after it."""
    match = re.fullmatch(rf"(.*){node.op_type}(_\d+)?", node.name or "")
    if match is None:
        return
    name, output = context.names.claim(match[1] + op_type), node.outputs[0]
    if output.name == node.name and not output.is_graph_output():
        output.name = name
    node.name = name


def set_inputs(node: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
    """Replaces all inputs of a node and removes what thereby becomes unused."""
    before = node.inputs
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        if node.inputs[index] is not value:
            node.replace_input_with(index, value)
    for value in before:
        discard_producer(value)


def discard_producer(value: ir.Value | None) -> None:
    """Removes the producer of a value if none of its outputs is used."""
    node = None if value is None else value.producer()
    if node is not None and node.graph is not None and is_unused(node):
        discard(node)


def is_unused(node: ir.Node) -> bool:
    return not any(output.is_graph_output() or output.uses() for output in node.outputs)


def discard(node: ir.Node) -> None:
    """Removes an unused node, and then those that fed nothing else."""
    for value in detach(node):
        discard_producer(value)


def detach(node: ir.Node) -> list[ir.Value]:
    """Removes an unused node from its graph; returns its inputs.

    The nodes of its subgraphs are detached as well: Graph.remove leaves them among the uses of outer values.
    """
    assert node.graph is not None
    read = dict.fromkeys(value for value in node.inputs if value is not None)
    for inner in nodes_within(node):
        for index, value in enumerate(inner.inputs):
            if value is not None:
                read[value] = None
                inner.replace_input_with(index, None)
    node.graph.remove(node, safe=True)
    return list(read)


def add_initializer(graph: ir.Graph, name: str, tensor: ir.TensorProtocol) -> ir.Value:
    """A new initializer with this unused name."""
    tensor.name = name
    value = ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def constant_to_node(graph: ir.Graph, name: str, before: ir.Node | None) -> None:
    """Let an initializer be a Constant node, before another node or in a graph that has none."""
    value = graph.initializers.pop(name)
    assert value.const_value is not None
    node = ir.node("Constant", [], {"value": value.const_value}, name=name)
    made = node.outputs[0]
    made.name, made.type, made.shape = name, value.type, value.shape
    value.replace_all_uses_with(made, replace_graph_outputs=True)
    if before is None:
        graph.append(node)
    else:
        graph.insert_before(before, node)
