"""Computing at export what the model computes from constants in several steps."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxport.optimize.computed import COMPUTED_BYTES, computed, declared_bytes
from onnxport.optimize.context import CONSTANT, Array, Context, stays
from onnxport.optimize.evaluate import EVALUATORS
from onnxport.optimize.passes.constant_folding import GROWTH_BYTES
from onnxport.optimize.rewrite import add_initializer, bypass

# What all results together may add to the file: this, or a fiftieth of its weights.
ALLOWANCE_BYTES = 256 * 1024
KEPT_BYTES = 1024 * 1024


class FoldConstantTrees(ir.passes.InPlacePass):
    """Replaces all nodes that lead from constants to one result by an initializer.

    `FoldConstants` takes one node at a time, and leaves one whose result is larger than the constants that die with it:
    the first of two readers of a weight (w.triu() + w.triu(1).T), the product of two thin matrices that is added to a
    large one, the grid of a detector's anchors. Here the steps are taken together, and the file may grow a little.

    Rules:
        1. The steps are of the ONNX domain and in the table of `evaluate`.
        2. The result is at most 1 KiB larger than the constants that die with the steps. What is more comes from an
           allowance for the whole model: a fiftieth of its weights, or 256 KiB. A weight that is also read as it is,
           or is in a file of its own, has no part in that: there is no second copy of it.
        3. Nothing above 64 MiB is computed on the way.

    Preserves: values up to rounding of the runtime's kernels; names of graph outputs.
    """

    def __init__(self, *, training: bool = False) -> None:
        super().__init__()
        self._training = training

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        context = Context(model, self._training)
        folding = _Folding(context, _constant_nodes(context))
        return ir.passes.PassResult(model, modified=folding.run())


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


class _Folding:
    """One run over the constant nodes of a model."""

    def __init__(self, context: Context, constant: dict[ir.Node, None]) -> None:
        self.context = context
        self.constant = constant
        weights = (value.const_value for value in context.model.graph.initializers.values())
        stored = sum(tensor.nbytes for tensor in weights if tensor is not None) if constant else 0
        self.allowance = max(ALLOWANCE_BYTES, stored // 50)
        self.known: dict[ir.Value, Array | None] = {}
        self.made: set[ir.Value] = set()

    def run(self) -> bool:
        modified = False
        for node in [node for node in self.constant if self._ends(node)]:
            modified |= self._fold(node)
            # Small results are computed once for all that follow from them; large ones are not kept beside the weights.
            self.known = {
                v: array for v, array in self.known.items() if array is not None and array.nbytes <= KEPT_BYTES
            }
        return modified

    def _ends(self, node: ir.Node) -> bool:
        """Whether the result is used by a node that cannot be computed at export."""
        output = node.outputs[0]
        if node.op_type == "Identity" and output.is_graph_output():
            return False
        return output.is_graph_output() or any(use.node not in self.constant for use in output.uses())

    def _fold(self, node: ir.Node) -> bool:
        output = node.outputs[0]
        steps = self._steps(node)
        if node.graph is None or any(declared_bytes(step.outputs[0]) > COMPUTED_BYTES for step in steps):
            return False
        growth = self._growth(node, steps)
        result = computed(self.context, output, self.known) if growth <= max(GROWTH_BYTES, self.allowance) else None
        if result is None:
            return False
        tensor = ir.tensor(result)
        if output.dtype is not None and output.dtype != tensor.dtype:
            return False
        self.allowance -= int(growth) if growth > GROWTH_BYTES else 0
        kept = output.name is None or output.is_graph_output()
        name = self.context.names.claim(f"{output.name}_value") if kept else str(output.name)
        made = add_initializer(node.graph, name, tensor)
        made.meta[CONSTANT] = True
        self.made.add(made)
        return bypass(self.context, node, made)

    def _steps(self, node: ir.Node) -> set[ir.Node]:
        """The node and all constant nodes that it depends on."""
        steps, left = {node}, [node]
        while left:
            for value in left.pop().inputs:
                step = None if value is None else value.producer()
                if step in self.constant and step not in steps:
                    steps.add(step)
                    left.append(step)
        return steps

    def _growth(self, node: ir.Node, steps: set[ir.Node]) -> float:
        """How much larger the result is than the constants that die with it; without bound where a weight is copied."""
        # A step with other uses stays, with everything it depends on.
        alone = {step for step in steps if step is node or _readers(step.outputs[0]) <= steps}
        growth = declared_bytes(node.outputs[0])
        for value in {value for step in steps for value in step.inputs if value is not None}:
            tensor = self.context.tensor(value)
            if tensor is None:
                continue
            if stays(value) and tensor.nbytes > GROWTH_BYTES:
                growth = math.inf
            elif _readers(value) <= alone:
                growth -= tensor.nbytes
            elif (
                value not in self.made and tensor.nbytes > GROWTH_BYTES and not _readers(value) <= self.constant.keys()
            ):
                growth = math.inf
        return growth


def _readers(value: ir.Value) -> set[ir.Node]:
    return {use.node for use in value.uses()}
