"""The bias of a layer behind the residual connection, so that ONNX Runtime runs the norm by its faster kernel."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.context import Context, only_use, produced_by, rank, same_shape
from onnxport.optimize.rewrite import rewrite_nodes, set_inputs

_RANK = 3


class AddBiasLast(ir.passes.InPlacePass):
    """Writes LayerNormalization((x + bias) + residual) as LayerNormalization((x + residual) + bias).

    ONNX Runtime fuses the sum of two tensors of the same three dimensions and the norm behind it into
    SkipLayerNormalization. On the CPU that kernel takes two to five times as long as the two nodes.
    A sum with a bias stays as it is.

    Rule: x and residual have the same three dimensions, the bias is a constant of one, and nobody else reads the sums.

    Preserves: values up to the rounding of one addition; the number of nodes; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        rules = {"LayerNormalization": [_add_bias_last]}
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), rules))


def _add_bias_last(context: Context, node: ir.Node) -> bool:
    outer = produced_by(node.inputs[0], "Add")
    if outer is None or outer.graph is not node.graph or not only_use(outer.outputs[0]):
        return False
    for biased, residual in (outer.inputs, outer.inputs[::-1]):
        inner = produced_by(biased, "Add")
        if biased is None or residual is None or inner is None or not only_use(biased):
            continue
        for x, bias in (inner.inputs, inner.inputs[::-1]):
            if x is not None and rank(x) == _RANK and same_shape(x, residual) and _is_bias(bias):
                _reorder(context, outer, x, residual, bias)
                return True
    return False


def _is_bias(value: ir.Value | None) -> bool:
    return value is not None and value.is_initializer() and not value.is_graph_input() and rank(value) == 1


def _reorder(context: Context, outer: ir.Node, x: ir.Value, residual: ir.Value, bias: ir.Value | None) -> None:
    """The outer sum keeps its name and its value; the inner one is new."""
    total = outer.outputs[0]
    name = context.names.claim(outer.name or "Add")
    inner = ir.node("Add", [x, residual], name=name, metadata_props=outer.metadata_props)
    inner.doc_string = outer.doc_string
    made = inner.outputs[0]
    made.name, made.type, made.shape = name, total.type, total.shape
    assert outer.graph is not None
    outer.graph.insert_before(outer, inner)
    set_inputs(outer, [made, bias])
