"""Computing at export a weight that the model computes from other weights in several steps."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxport.optimize.constant_folding import COMPUTED_BYTES, GROWTH_BYTES
from onnxport.optimize.context import Array, Context
from onnxport.optimize.evaluate import EVALUATORS, evaluate
from onnxport.optimize.rewrite import add_initializer, bypass


class FoldConstantTrees(ir.passes.InPlacePass):
    """Replaces all nodes that lead from weights to one computed weight by an initializer.

    `FoldConstants` takes one node at a time, and leaves one whose result is larger than the constants that die with it:
    the first of two readers of a weight (w.triu() + w.triu(1).T), or the product of two thin matrices that is added to
    a large one. Such a file does not grow if the steps are taken together.

    Rules:
        1. The steps are of the ONNX domain and in the table of `evaluate`; nobody else reads what is between them.
        2. The result is at most 1 KiB larger than the constants that die with the steps.
        3. Nothing above 64 MiB is computed on the way.

    Preserves: values up to rounding of the runtime's kernels; names of graph outputs.
    """

    def __init__(self, *, training: bool = False) -> None:
        super().__init__()
        self._training = training

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model, self._training)
        constant = _constant_nodes(context)
        modified = False
        for node in constant:
            if node.graph is not None and _ends(node, constant):
                modified |= _fold(context, node, constant)
        return ir.passes.PassResult(model, modified=modified)


def _constant_nodes(context: Context) -> dict[ir.Node, None]:
    """The nodes that depend on constants alone, in the order of the graph."""
    found: dict[ir.Node, None] = {}
    for node in context.model.graph:
        if node.domain != "" or node.op_type not in EVALUATORS or len(node.outputs) != 1 or not node.inputs:
            continue
        if all(value is None or value.producer() in found or _is_number(context, value) for value in node.inputs):
            found[node] = None
    return found


def _is_number(context: Context, value: ir.Value) -> bool:
    tensor = context.tensor(value)
    return tensor is not None and not tensor.dtype.is_string() and tensor.dtype.bitwidth >= 8


def _ends(node: ir.Node, constant: dict[ir.Node, None]) -> bool:
    """Whether somebody reads the result who cannot be computed at export, and one of the inputs is computed."""
    output = node.outputs[0]
    outside = output.is_graph_output() or any(use.node not in constant for use in output.uses())
    return outside and any(value is not None and value.producer() in constant for value in node.inputs)


def _fold(context: Context, node: ir.Node, constant: dict[ir.Node, None]) -> bool:
    steps = _steps(node, constant)
    if steps is None or any(_declared_bytes(step.outputs[0]) > COMPUTED_BYTES for step in steps):
        return False
    values = {value for step in steps for value in step.inputs if value is not None}
    dying = [v for v in values if v.producer() not in steps and all(use.node in steps for use in v.uses())]
    room = sum(tensor.nbytes for value in dying if (tensor := context.tensor(value)) is not None)
    if _declared_bytes(node.outputs[0]) > room + GROWTH_BYTES:
        return False
    result = _computed(context, [step for step in constant if step in steps])
    output = node.outputs[0]
    if result is None or node.graph is None or result.nbytes > room + GROWTH_BYTES:
        return False
    tensor = ir.tensor(result)
    if output.dtype is not None and output.dtype != tensor.dtype:
        return False
    kept = output.name is None or output.is_graph_output()
    name = context.names.claim(f"{output.name}_value") if kept else str(output.name)
    return bypass(context, node, add_initializer(node.graph, name, tensor))


def _steps(node: ir.Node, constant: dict[ir.Node, None]) -> set[ir.Node] | None:
    """The node and all constant nodes behind it; None if somebody else reads from one of those."""
    steps, left = {node}, [node]
    while left:
        for value in left.pop().inputs:
            step = None if value is None else value.producer()
            if step in constant and step not in steps:
                steps.add(step)
                left.append(step)
    between = (step.outputs[0] for step in steps if step is not node)
    alone = all(not value.is_graph_output() and all(use.node in steps for use in value.uses()) for value in between)
    return steps if alone else None


def _computed(context: Context, steps: list[ir.Node]) -> Array | None:
    """What the last of the steps yields, which are in the order of the graph."""
    known: dict[ir.Value, Array] = {}
    for step in steps:
        tensors = [context.tensor(value) for value in step.inputs]
        inputs = [
            None if value is None else known[value] if tensor is None else tensor.numpy()
            for value, tensor in zip(step.inputs, tensors, strict=True)
        ]
        result = evaluate(step, inputs)
        if result is None:
            return None
        known[step.outputs[0]] = result
    return known[steps[-1].outputs[0]]


def _declared_bytes(value: ir.Value) -> float:
    """The size of a value by its shape and type; infinite if they do not tell."""
    if value.shape is None or value.dtype is None:
        return math.inf
    sizes: list[int] = [dim for dim in value.shape if isinstance(dim, int)]
    return math.prod(sizes) * value.dtype.itemsize if len(sizes) == len(value.shape) else math.inf
