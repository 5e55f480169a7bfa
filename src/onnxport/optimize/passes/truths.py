"""Removal of conditions that always hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxport.optimize.context import Context, is_op, produced_by, same_shape
from onnxport.optimize.passes.broadcasts import BROADCASTING, fill
from onnxport.optimize.rewrite import Rewrite, bypass, discard, rewrite_nodes

_MOVES = ("Unsqueeze", "Squeeze", "Reshape", "Expand", "Transpose", "Flatten")


class DropTruths(ir.passes.InPlacePass):
    """Removes an And whose one operand is true everywhere.

    Rules:
        1. The other operand has the shape of the result already.
        2. Or whoever reads the result broadcasts it by itself, to the same shape as before.

    True everywhere is a Range that begins at 0 or above and rises, compared as at least 0 or less; and a
    ConstantOfShape of another value than 0 as a boolean; both in whatever shape. Masks of attention are made of these.

    Preserves: every value bit for bit; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), _RULES))


def _and(context: Context, node: ir.Node) -> bool:
    left, right = node.inputs
    for kept, other in ((left, right), (right, left)):
        if kept is None or not _is_true(context, other):
            continue
        if same_shape(kept, node.outputs[0]):
            return bypass(context, node, kept)
        if _is_broadcast_by_readers(node.outputs[0], kept):
            node.outputs[0].replace_all_uses_with(kept)
            discard(node)
            return True
    return False


def _is_broadcast_by_readers(result: ir.Value, kept: ir.Value) -> bool:
    if result.is_graph_output():
        return False
    readers = {use.node for use in result.uses()}
    return all(
        is_op(reader, *BROADCASTING)
        and fill([kept if value is result else value for value in reader.inputs], reader.outputs[0])
        for reader in readers
    )


def _is_true(context: Context, value: ir.Value | None) -> bool:
    """Whether a bool tensor is known to be true everywhere."""
    node = _made_by(value)
    if is_op(node, "GreaterOrEqual"):
        assert node is not None
        bound = context.array(node.inputs[1])
        return bound is not None and bound.size > 0 and bool((bound <= 0).all()) and _rises_from_zero(context, node)
    if is_op(node, "ConstantOfShape"):
        assert node is not None
        content = node.attributes.get("value")
        return content is not None and bool(content.as_tensor().numpy().all())
    return False


def _made_by(value: ir.Value | None) -> ir.Node | None:
    """The producer of a value, past nodes that only move its elements or cast them to bool."""
    while (node := produced_by(value, *_MOVES, "Cast")) is not None:
        if node.op_type == "Cast" and node.attributes["to"].as_int() != ir.DataType.BOOL:
            break
        value = node.inputs[0]
    return None if value is None else value.producer()


def _rises_from_zero(context: Context, comparison: ir.Node) -> bool:
    value = comparison.inputs[0]
    while (node := produced_by(value, *_MOVES)) is not None:
        value = node.inputs[0]
    counted = produced_by(value, "Range")
    if counted is None:
        return False
    start, step = context.array(counted.inputs[0]), context.array(counted.inputs[2])
    return start is not None and step is not None and start.item() >= 0 and step.item() > 0


_RULES: Mapping[str, Sequence[Rewrite]] = {"And": [_and]}
