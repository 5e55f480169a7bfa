"""Quantizers around operators that only move elements."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.context import Context, is_op, only_use, permutation, produced_by, rank
from onnxport.optimize.passes.quantization.parameters import parameters, same_parameters
from onnxport.optimize.rewrite import bypass, set_inputs
from onnxport.optimize.traversal import all_nodes

# Those whose first output holds elements of their first input and nothing else, for bytes too.
MOVES = (
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
_FIRST_POOL_OF_BYTES = 12
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


class MoveQuantizers(ir.passes.InPlacePass):
    """Puts QuantizeLinear in front of data movement and max pools, and DequantizeLinear behind.

    Runtimes look for QuantizeLinear right behind a layer and DequantizeLinear right in front of the next, and what is
    between then moves bytes.

    Rules, for a scale and zero point of the whole tensor and integers of 8 bits:
        1. QuantizeLinear of what a movement or max pool gives, if nothing else reads that: it comes first.
        2. A movement or max pool of what DequantizeLinear gives: DequantizeLinear comes last.
        3. QuantizeLinear of DequantizeLinear with the same parameters: both go.
        4. Shape of what is quantized, or of what it is the Relu or Clip of, reads the integers: ONNX Runtime has
           kernels for layers of which nothing else is read.

    Rounding never changes the order of two numbers, so the largest stays the largest.

    Preserves: every value; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model)
        modified = False
        for node in reversed(list(all_nodes(model.graph))):
            if is_op(node, "QuantizeLinear"):
                while _before(context, node):
                    modified = True
        for node in list(all_nodes(model.graph)):
            if node.graph is not None and _moves(context, node):
                modified |= _behind(context, node)
        for node in list(all_nodes(model.graph)):
            if is_op(node, "QuantizeLinear") and node.graph is not None:
                modified |= _back_and_forth(context, node)
        for node in list(all_nodes(model.graph)):
            if is_op(node, "Shape") and node.graph is not None:
                modified |= _shape_of_integers(node)
        return ir.passes.PassResult(model, modified=modified)


def _moves(context: Context, node: ir.Node | None) -> bool:
    if node is None or any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        return False
    return is_op(node, *MOVES) or (is_op(node, "MaxPool") and context.opset >= _FIRST_POOL_OF_BYTES)


def _is_of_whole_tensor(node: ir.Node, integers: ir.Value | None) -> bool:
    return rank(node.inputs[1]) == 0 and integers is not None and integers.dtype in _BYTES


def _before(context: Context, node: ir.Node) -> bool:
    """Movement, then QuantizeLinear: the other way around."""
    moved, output = node.inputs[0], node.outputs[0]
    if moved is None or not only_use(moved) or not _is_of_whole_tensor(node, output):
        return False
    if output.is_graph_output() or not output.uses():
        return False
    movement = moved.producer()
    if movement is None or not _moves(context, movement) or movement.graph is not node.graph:
        return False
    source = movement.inputs[0]
    if source is None or context.tensor(source) is not None:
        return False
    graph = node.graph
    assert graph is not None
    # What read the integers reads the movement, which reads the integers.
    output.replace_all_uses_with(moved)
    set_inputs(node, [source, *node.inputs[1:]])
    movement.replace_input_with(0, output)
    graph.remove(node)
    graph.insert_before(movement, node)
    moved.type, output.shape = output.type, source.shape
    # What is noted on the integers is true of them where they are read.
    moved.meta.update(output.meta)
    output.meta.clear()
    return True


def _behind(context: Context, movement: ir.Node) -> bool:
    """DequantizeLinear, then movement: the other way around. Others that read what it gives have it as before."""
    source, moved = movement.inputs[0], movement.outputs[0]
    node = produced_by(source, "DequantizeLinear")
    if node is None or source is None or movement.graph is None or moved.is_graph_output():
        return False
    axis = _axis_behind(context, node, movement)
    if axis is None and not _is_of_whole_tensor(node, node.inputs[0]):
        return False
    made = ir.node("DequantizeLinear", [moved, *node.inputs[1:]], name=context.names.claim(f"{movement.name}_float"))
    made.doc_string, result = node.doc_string, made.outputs[0]
    made.meta.update(node.meta)
    if axis is not None:
        made.attributes["axis"] = ir.AttrInt64("axis", axis)
    result.name, result.type, result.shape = made.name, moved.type, moved.shape
    uses = [use for use in moved.uses() if use.node is not made]
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    movement.graph.insert_after(movement, made)
    inputs = [node.inputs[0], *movement.inputs[1:]]
    moved.type = node.inputs[0].type if node.inputs[0] is not None else moved.type
    set_inputs(movement, inputs)
    return True


def _axis_behind(context: Context, node: ir.Node, movement: ir.Node) -> int | None:
    """The axis of the scales behind a Transpose; None where there is none, or something else moves."""
    found = parameters(context, node)
    order = permutation(movement) if is_op(movement, "Transpose") else None
    return None if found is None or found.axis is None or order is None else list(order).index(found.axis)


def _back_and_forth(context: Context, node: ir.Node) -> bool:
    """QuantizeLinear of DequantizeLinear gives back the integers."""
    before = produced_by(node.inputs[0], "DequantizeLinear")
    if before is None or not same_parameters(before, node) or before.inputs[0] is None:
        return False
    if before.inputs[0].dtype != node.outputs[0].dtype:
        return False
    return bypass(context, node, before.inputs[0])


def _shape_of_integers(shape: ir.Node) -> bool:
    """Let Shape read the integers of a value that one QuantizeLinear reads, perhaps behind a Relu or Clip."""
    value, graph = shape.inputs[0], shape.graph
    while value is not None and not value.is_graph_output():
        readers = [user for user, _ in value.uses() if not is_op(user, "Shape")]
        if len(readers) != 1 or readers[0].inputs[0] is not value or readers[0].graph is not graph:
            return False
        if not is_op(readers[0], "Relu", "Clip", "QuantizeLinear"):
            return False
        value = readers[0].outputs[0]
        if is_op(readers[0], "QuantizeLinear"):
            set_inputs(shape, [value])
            assert isinstance(graph, ir.Graph)
            graph.sort()
            return True
    return False
