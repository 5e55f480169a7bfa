"""Weights that are stored in the parts in which they are used."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Array, Context, only_use
from onnxport.optimize.rewrite import add_initializer, discard, replace, rewrite_nodes


class SplitWeights(ir.passes.InPlacePass):
    """Replaces a Split of a weight by one initializer for each part, as of the joined projections of an attention.

    The weight must have no other reader, so that the file does not grow. The parts share its memory, and are named
    after it.

    Preserves: values; memory of the parameters; names of graph outputs.
    """

    def __init__(self, *, training: bool = False) -> None:
        super().__init__()
        self._training = training

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = rewrite_nodes(Context(model, self._training), {"Split": [_split]})
        return ir.passes.PassResult(model, modified=modified)


def _split(context: Context, node: ir.Node) -> bool:
    weight = node.inputs[0]
    tensor = context.tensor(weight)
    if weight is None or tensor is None or tensor.dtype.bitwidth < 8 or not weight.is_initializer():
        return False
    if not only_use(weight) or any(output.is_graph_output() for output in node.outputs) or node.graph is None:
        return False
    parts = _parts(context, node, tensor.numpy())
    if parts is None:
        return False
    for index, (output, part) in enumerate(zip(node.outputs, parts, strict=True)):
        if output.uses():
            name = context.names.claim(f"{weight.name}.{index}")
            replace(output, add_initializer(node.graph, name, ir.Tensor(part)))
    discard(node)
    return True


def _parts(context: Context, node: ir.Node, array: Array) -> list[Array] | None:
    axis = node.attributes.get_int("axis", 0)
    sizes = context.ints(node, "split", 1)
    if sizes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        return None
    count = len(node.outputs)
    each = -(-array.shape[axis] // count)
    ends = np.cumsum(sizes)[:-1] if sizes is not None else [each * index for index in range(1, count)]
    return np.split(array, ends, axis)
