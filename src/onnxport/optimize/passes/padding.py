"""Zeros around an image as the padding of the convolution that reads it."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.context import Context, has_argument, is_op, only_use, operand, produced_by
from onnxport.optimize.rewrite import rewrite_nodes, set_inputs


class FusePads(ir.passes.InPlacePass):
    """Adds a Pad by zeros to the pads of a Conv.

    Rule: the Pad is constant, by zeros, of the spatial axes alone and nowhere negative, and nobody else reads it; the
    Conv says its pads itself (no auto_pad).

    Preserves: values; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), {"Conv": [_fuse]}))


def _fuse(context: Context, node: ir.Node) -> bool:
    value = node.inputs[0]
    pad = produced_by(value, "Pad")
    if pad is None or value is None or not only_use(value) or pad.graph is not node.graph:
        return False
    pads = _zeros(context, pad)
    if pads is None or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return False
    rank = len(pads) // 2
    spatial = pads[2:rank] + pads[rank + 2 :]
    if any(pads[:2]) or any(pads[rank : rank + 2]) or min(spatial) < 0:
        return False
    own = node.attributes.get_ints("pads", (0,) * len(spatial))
    node.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, spatial, strict=True)])
    set_inputs(node, [pad.inputs[0], *node.inputs[1:]])
    return True


def _zeros(context: Context, pad: ir.Node) -> tuple[int, ...] | None:
    """The pads of a Pad by zeros of all axes."""
    assert is_op(pad, "Pad")
    value = context.argument(pad, "value", 2)
    if has_argument(pad, "value", 2) and (value is None or value.any()):
        return None
    if pad.attributes.get_string("mode", "constant") != "constant" or operand(pad, 3) is not None:
        return None
    return context.ints(pad, "pads", 1)
