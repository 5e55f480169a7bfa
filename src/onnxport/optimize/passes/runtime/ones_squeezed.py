"""One Squeeze for an If that drops one axis more where its size is 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxport.optimize.context import Context, is_op, normalized, operand, produced_by, same_dim
from onnxport.optimize.rewrite import Rewrite, become, rewrite_nodes

# Operators of one tensor that work on each element.
_OF_ELEMENTS = ("Abs", "Exp", "Identity", "Log", "Neg", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh")


class SqueezeOnes(ir.passes.InPlacePass):
    """Lets a Squeeze without axes decide at run time which axes it drops.

    Rule: an If whose condition compares the size of one axis with 1, whose branches squeeze one value, the first of
    them that axis too, and then do the same to each element. Every other axis is squeezed in both or is never 1.

    Such a Squeeze has no shape that other passes could read: this one runs after them.

    Preserves: every value bit for bit; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), _RULES))


def _squeeze(context: Context, node: ir.Node) -> bool:
    chains = [_chain(node.attributes[name].as_graph()) for name in ("then_branch", "else_branch")]
    size = _compared_with_one(context, node.inputs[0])
    if size is None or None in chains or len(node.outputs) != 1:
        return False
    (dropped, rest), (kept, other) = [_squeezed_first(context, chain) for chain in chains if chain]
    source = _source(chains[0])
    if source is None or source is not _source(chains[1]) or source.shape is None or not _are_alike(rest, other):
        return False
    for axis, length in enumerate(source.shape):
        if axis in dropped and axis not in kept:
            fits = same_dim(length, size)
        else:
            fits = isinstance(length, int) and (length == 1) == (axis in dropped) == (axis in kept)
        if not fits:
            return False
    if len(dropped) != len(kept) + 1:
        return False
    _rewrite(context, node, source, rest)
    return True


def _rewrite(context: Context, node: ir.Node, source: ir.Value, rest: Sequence[ir.Node]) -> None:
    """Turns the If into the last of the nodes, with the others in front of it."""
    assert node.graph is not None
    steps = [("Squeeze", []), *((step.op_type, list(step.attributes.values())) for step in rest)]
    value = source
    for op_type, attributes in steps[:-1]:
        made = ir.Node("", op_type, [value], attributes, name=context.names.claim(op_type))
        made.outputs[0].name, made.outputs[0].type = made.name, source.type
        node.graph.insert_before(node, made)
        value = made.outputs[0]
    become(context, node, steps[-1][0], [value], steps[-1][1])


def _chain(graph: ir.Graph) -> list[ir.Node] | None:
    """The nodes of a branch, if each reads nothing that is made in it but the result of the one before."""
    nodes = list(graph)
    if len(graph.outputs) != 1 or not nodes or nodes[-1].outputs[0] is not graph.outputs[0]:
        return None
    own = {output for node in nodes for output in node.outputs}
    for before, node in zip([None, *nodes[:-1]], nodes, strict=True):
        reads = [value for value in node.inputs if value in own]
        if reads != ([] if before is None else [before.outputs[0]]) or (reads and node.inputs[0] is not reads[0]):
            return None
    return nodes


def _source(chain: list[ir.Node] | None) -> ir.Value | None:
    return chain[0].inputs[0] if chain else None


def _squeezed_first(context: Context, chain: list[ir.Node]) -> tuple[Sequence[int], list[ir.Node]]:
    """The axes that a branch squeezes before it does anything else, and the nodes behind that."""
    first, shape = chain[0], chain[0].inputs[0].shape if chain[0].inputs[0] is not None else None
    if is_op(first, "Squeeze"):
        axes = context.ints(first, "axes", 1)
        found = None if axes is None or shape is None else normalized(axes, len(shape))
        return ((), chain) if found is None else (found, chain[1:])
    return (), [node for node in chain if node.op_type != "Identity"]


def _are_alike(left: Sequence[ir.Node], right: Sequence[ir.Node]) -> bool:
    kinds = [[(node.domain, node.op_type) for node in nodes] for nodes in (left, right)]
    same = kinds[0] == kinds[1] and all(is_op(node, *_OF_ELEMENTS) and len(node.inputs) == 1 for node in left)
    return same and all(not node.attributes and not other.attributes for node, other in zip(left, right, strict=True))


def _compared_with_one(context: Context, condition: ir.Value | None) -> int | ir.SymbolicDim | None:
    """The dimension that a condition compares with 1."""
    equal = produced_by(condition, "Equal")
    one = None if equal is None else context.array(operand(equal, 1))
    taken = None if equal is None or one is None or one.size != 1 or one.item() != 1 else equal.inputs[0]
    gather = produced_by(taken, "Gather")
    index = None if gather is None else context.array(operand(gather, 1))
    shape = None if gather is None or index is None or index.size != 1 else produced_by(gather.inputs[0], "Shape")
    measured = None if shape is None or shape.attributes else shape.inputs[0]
    if measured is None or measured.shape is None or index is None:
        return None
    return measured.shape[int(index.item())]


_RULES: Mapping[str, Sequence[Rewrite]] = {"If": (_squeeze,)}
