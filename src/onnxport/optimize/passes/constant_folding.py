"""Computing at export what does not depend on the inputs."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxport.optimize.computed import COMPUTED_BYTES
from onnxport.optimize.context import CONSTANT, Array, Context, is_op, only_use, produced_by, stays
from onnxport.optimize.evaluate import EVALUATORS, evaluate
from onnxport.optimize.movement import VIEWS
from onnxport.optimize.rewrite import add_initializer, bypass
from onnxport.optimize.traversal import all_nodes

GROWTH_BYTES = 1024


class FoldConstants(ir.passes.InPlacePass):
    """Replaces nodes that have only constant inputs by initializers.

    Rules:
        1. A node of the ONNX domain whose inputs are all constant, and whose operator is in the table of `evaluate`.
           Random operators, control flow, sequences and quantisation are not in it.
        2. Shape and Size of a value whose shape is static; Gather and Slice that read static dimensions from a Shape.
        3. The file must not grow: the result is at most 1 KiB larger than the constants that die with the node. So a
           weight with other readers is not copied, nor one that is in a file of its own, and a big Expand, Tile or
           ConstantOfShape stays.
        4. No result above 64 MiB is computed; views (Transpose, Reshape, Slice, ...) share the weight's memory and are
           folded at any size. Such an initializer may be non-contiguous.
        5. The result is named like the weight it was made from if that one dies, otherwise like the value it replaces.

    Constant is what `Context.tensor` says: no graph input, and while training no floating-point initializer.

    Preserves: values up to rounding of the runtime's kernels; memory of the parameters; names of graph outputs.
    """

    def __init__(self, *, training: bool = False) -> None:
        super().__init__()
        self._training = training

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model, self._training)
        modified = False
        for node in all_nodes(model.graph):
            if node.domain == "" and node.op_type in EVALUATORS and len(node.outputs) == 1:
                modified |= _fold(context, node)
        return ir.passes.PassResult(model, modified=modified)


def _fold(context: Context, node: ir.Node) -> bool:
    output = node.outputs[0]
    if node.graph is None or (is_op(node, "Identity") and output.is_graph_output()):
        return False
    result = _static_dims(context, node)
    if result is None:
        result = _constant_result(context, node)
    if result is None:
        return False
    tensor = ir.Tensor(result)
    if output.dtype is not None and output.dtype != tensor.dtype:
        return False
    weight = _replaced_weight(context, node, tensor)
    made = add_initializer(node.graph, _claim_name(context, node, weight), tensor)
    if weight is None or weight.meta.get(CONSTANT):
        made.meta[CONSTANT] = True
    return bypass(context, node, made)


def _constant_result(context: Context, node: ir.Node) -> Array | None:
    inputs: list[Array | None] = []
    limit = GROWTH_BYTES
    for value in node.inputs:
        tensor = context.tensor(value)
        if value is not None and (tensor is None or tensor.dtype.is_string() or tensor.dtype.bitwidth < 8):
            return None
        dies = value is not None and only_use(value) and not stays(value)
        limit += tensor.nbytes if tensor is not None and dies else 0
        inputs.append(None if tensor is None else tensor.numpy())
    if node.op_type not in VIEWS:
        limit = min(limit, COMPUTED_BYTES)
    if _declared_bytes(node.outputs[0]) > limit:
        return None
    result = evaluate(node, inputs)
    return None if result is None or result.nbytes > limit else result


def _declared_bytes(value: ir.Value) -> float:
    """The size of a value in bytes, if its shape and type are known."""
    if value.shape is None or value.dtype is None:
        return 0
    return math.prod(dim if isinstance(dim, int) else 0 for dim in value.shape) * value.dtype.itemsize


def _static_dims(context: Context, node: ir.Node) -> Array | None:
    """What a node reads from a shape, if those dimensions are static."""
    if is_op(node, "Size"):
        dims = _dims_of(node.inputs[0])
        return None if dims is None or None in dims else np.array(math.prod(int(dim or 0) for dim in dims), np.int64)
    if is_op(node, "Shape"):
        return _all_static(_read_shape(node))
    shape = produced_by(node.inputs[0], "Shape") if is_op(node, "Gather", "Slice") else None
    dims = None if shape is None else _read_shape(shape)
    if dims is None:
        return None
    # The operator itself picks the positions, so that its rules are stated once, in `evaluate`.
    positions = evaluate(node, [np.arange(len(dims)), *(context.array(value) for value in node.inputs[1:])])
    if positions is None:
        return None
    picked = _all_static([dims[position] for position in positions.flat])
    return None if picked is None else picked.reshape(positions.shape)


def _read_shape(node: ir.Node) -> list[int | None] | None:
    dims = _dims_of(node.inputs[0])
    if dims is None:
        return None
    return dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(dims))]


def _dims_of(value: ir.Value | None) -> list[int | None] | None:
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else None for dim in value.shape]


def _all_static(dims: list[int | None] | None) -> Array | None:
    return None if dims is None or None in dims else np.array(dims, dtype=np.int64)


def _replaced_weight(context: Context, node: ir.Node, result: ir.TensorProtocol) -> ir.Value | None:
    """The weight of the same graph whose name the result takes over."""
    weight = _source_weight(context, node)
    return weight if weight is not None and weight.graph is node.graph and result.size > 1 else None


def _claim_name(context: Context, node: ir.Node, weight: ir.Value | None) -> str:
    """The name of the weight that the result replaces, or a name after the replaced value."""
    if weight is not None:
        assert weight.name is not None and weight.graph is not None
        del weight.graph.initializers[weight.name]
        return weight.name
    output = node.outputs[0]
    # The name is free as soon as the node is gone; as a graph output the value stays.
    if output.name is None or output.is_graph_output():
        return context.names.claim(f"{output.name}_value")
    return output.name


def _source_weight(context: Context, node: ir.Node) -> ir.Value | None:
    """The initializer that is larger than all other inputs of a node, if it has no other use."""
    sizes = {value: tensor.nbytes for value in node.inputs if value and (tensor := context.tensor(value)) is not None}
    largest = sorted(sizes.values())[-2:]
    for value, size in sizes.items():
        if size == largest[-1] and (len(largest) == 1 or largest[0] < size) and value.is_initializer():
            return value if only_use(value) else None
    return None
