"""Removal of an Expand before an operator that broadcasts by itself."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.context import Context, produced_by, same_dim
from onnxport.optimize.rewrite import rewrite_nodes, set_inputs

BROADCASTING = (
    *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul"),
    *("Or", "Pow", "Sub", "Where", "Xor"),
)


class DropExpands(ir.passes.InPlacePass):
    """Lets an operator that broadcasts read what was expanded for it.

    Rule: the result has the same shape without the Expand, because the other operands have every dimension that it
    makes larger.

    Preserves: every value bit for bit; names of graph outputs. The Expand stays while somebody else reads it.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        rules = {op_type: [_drop] for op_type in BROADCASTING}
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), rules))


def _drop(context: Context, node: ir.Node) -> bool:
    for index, value in enumerate(node.inputs):
        expand = produced_by(value, "Expand")
        if expand is None:
            continue
        inputs = [*node.inputs[:index], expand.inputs[0], *node.inputs[index + 1 :]]
        if fill(inputs, node.outputs[0]):
            set_inputs(node, inputs)
            return True
    return False


def fill(inputs: list[ir.Value | None], output: ir.Value) -> bool:
    """Whether the operands, broadcast together, surely have the shape of the output."""
    if output.shape is None or any(value is None or value.shape is None for value in inputs):
        return False
    shapes = [value.shape.dims for value in inputs if value is not None and value.shape is not None]
    if max(map(len, shapes)) != len(output.shape):
        return False
    return all(
        any(same_dim(shape[-index], dim) for shape in shapes if index <= len(shape))
        for index, dim in enumerate(reversed(output.shape.dims), start=1)
    )
