"""Heads of attention that share a key or a value, without copies of it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Context, permutation, produced_by, rank, same_dim
from onnxport.optimize.rewrite import add_initializer, rewrite_nodes, set_inputs

_RANK = 4
_HEADS, _COPIES = 1, 2
_SWAPPED = [0, 1, 3, 2]


class ShareHeads(ir.passes.InPlacePass):
    """Writes the product with repeated heads, MatMul(x, Reshape(Expand(Unsqueeze(key)))), as one with the key itself.

    The heads of x that share one of the key become further rows: x is [batch, groups, copies * rows, width] for it.

    Rule: Unsqueeze adds axis 2 to a key of four dimensions, Expand widens that axis alone, Reshape joins it with the
    heads. Between it and the product may be the Transpose of the last two axes. The numbers of heads are known, and x
    and the key have the same batch.

    Preserves: values up to the order in which a product sums; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), {"MatMul": [_share]}))


def _share(context: Context, node: ir.Node) -> bool:
    x, columns = node.inputs
    if x is None or columns is None or node.graph is None:
        return False
    swap = produced_by(columns, "Transpose")
    if swap is not None and list(permutation(swap) or ()) != _SWAPPED:
        return False
    key = _repeated(context, columns if swap is None else swap.inputs[0])
    result = node.outputs[0]
    if key is None or key.shape is None or x.shape is None or rank(x) != _RANK or rank(result) != _RANK:
        return False
    heads, groups = x.shape[_HEADS], key.shape[_HEADS]
    if not isinstance(heads, int) or not isinstance(groups, int) or not same_dim(x.shape[0], key.shape[0]):
        return False
    if columns.shape is None or columns.shape[_HEADS] != heads:
        return False
    _fold(context, node, x, key, swap, heads, groups)
    return True


def _repeated(context: Context, value: ir.Value | None) -> ir.Value | None:
    """The key of which a value has each head several times, one after the other."""
    joined = produced_by(value, "Reshape")
    expanded = None if joined is None else produced_by(joined.inputs[0], "Expand")
    added = None if expanded is None else produced_by(expanded.inputs[0], "Unsqueeze")
    if value is None or expanded is None or added is None or (key := added.inputs[0]) is None:
        return None
    if rank(key) != _RANK or context.ints(added, "axes", 1) != (_COPIES,):
        return None
    wide, shape, joint = expanded.outputs[0].shape, key.shape, value.shape
    if wide is None or shape is None or joint is None or len(wide) != _RANK + 1 or len(joint) != _RANK:
        return None
    groups, copies = shape[_HEADS], wide[_COPIES]
    if not isinstance(groups, int) or not isinstance(copies, int) or joint[_HEADS] != groups * copies:
        return None
    kept = [axis for axis in range(_RANK + 1) if axis != _COPIES]
    if not all(same_dim(wide[axis], dim) for axis, dim in zip(kept, shape, strict=True)):
        return None
    others = [axis for axis in range(_RANK) if axis != _HEADS]
    return key if all(same_dim(joint[axis], shape[axis]) for axis in others) else None


def _fold(
    context: Context, node: ir.Node, x: ir.Value, key: ir.Value, swap: ir.Node | None, heads: int, groups: int
) -> None:
    """The node becomes the Reshape that parts the heads again, so that its output keeps its name."""
    graph, result = node.graph, node.outputs[0]
    assert graph is not None

    def shape(size: int) -> ir.Value:
        target = ir.Tensor(np.array([0, size, -1, 0]))
        return add_initializer(graph, context.names.claim(f"{result.name}_shape"), target)

    def added(op_type: str, inputs: list[ir.Value], attributes: list[ir.Attr]) -> ir.Value:
        name = context.names.claim(f"{(result.name or '').rpartition('/')[0]}/{op_type}".lstrip("/"))
        made = ir.Node("", op_type, inputs, attributes, name=name, metadata_props=dict(node.metadata_props))
        made.outputs[0].name, made.outputs[0].type = name, result.type
        graph.insert_before(node, made)
        return made.outputs[0]

    assert x.shape is not None and result.shape is not None
    together = added("Reshape", [x, shape(groups)], [])
    together.shape = ir.Shape([x.shape[0], groups, None, x.shape[3]])
    columns = key if swap is None else added("Transpose", [key], [ir.AttrInt64s("perm", _SWAPPED)])
    if columns is not key and key.shape is not None:
        columns.shape = ir.Shape([key.shape[axis] for axis in _SWAPPED])
    product = added("MatMul", [together, columns], [])
    product.shape = ir.Shape([result.shape[0], groups, None, result.shape[3]])
    node.op_type = "Reshape"
    node.attributes.clear()
    set_inputs(node, [product, shape(heads)])
