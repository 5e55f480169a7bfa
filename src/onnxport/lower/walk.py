"""The walk over the captured graph: each node is translated by its converter, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import onnx.helper
import onnx_ir as ir
import torch

from onnxport.errors import DynamicAxisError, UnsupportedOperatorError
from onnxport.graph import ir as captured
from onnxport.graph.dims import Dim
from onnxport.graph.ir import BAKED, Graph, Node, ScalarType, Varying, map_values
from onnxport.lower import sizes
from onnxport.lower.builder import Builder, Context
from onnxport.lower.registry import Registry
from onnxport.lower.value import Value

SCALAR_DTYPES: dict[type, torch.dtype] = {int: torch.int64, float: torch.float32, bool: torch.bool}


class Lowering:
    """One export's translation from the captured graph to ONNX."""

    def __init__(self, graph: Graph, registry: Registry, opset: int, *, bake_parameters: bool, train: bool) -> None:
        self.graph = graph
        self.registry = registry
        self.context = Context(graph, opset, train=train)
        self.bake_parameters = bake_parameters
        self.values: dict[captured.Value, Value] = {}
        self.builder = Builder(self.context, self.realise)

    def run(self, input_names: Sequence[str], parameter_names: Sequence[str], output_names: Sequence[str]) -> ir.Model:
        check_known(self.graph, self.registry)
        for name in (*input_names, *parameter_names, *output_names):
            self.context.unique(name)
        inputs = [self._input(value, name) for value, name in zip(self.graph.block.inputs, input_names, strict=True)]
        parameters = [
            self._parameter(value, name) for value, name in zip(self.graph.parameters, parameter_names, strict=True)
        ]
        for node in self.graph.block.nodes:
            self.lower(node)
        outputs = self._outputs(output_names)
        graph = ir.Graph(
            inputs + [value for value in parameters if value is not None],
            outputs,
            nodes=self.builder.nodes,
            initializers=list(self.context.initializers.values()),
            opset_imports={"": self.context.opset},
            name=self.graph.modules.get("", "model"),
        )
        return ir.Model(graph, ir_version=ir_version(self.context.opset), producer_name="onnxport")

    def _input(self, value: captured.Value, name: str) -> ir.Value:
        lowered = Value(ir.Value(name=name), value.dtype, value.shape)
        self.builder.typed(lowered, value.dtype, value.shape)
        self.builder.carry(lowered)
        self.values[value] = lowered
        assert lowered.ir is not None
        return lowered.ir

    def _parameter(self, value: captured.Value, name: str) -> ir.Value | None:
        """A parameter is stored in the file, or becomes an input of the graph."""
        assert value.data is not None
        if not self.bake_parameters:
            data, value.data = value.data, None
            try:
                return self._input(value, name)
            finally:
                value.data = data
        self.values[value] = self.builder.initializer(name, value.data.detach())
        return None

    def _outputs(self, names: Sequence[str]) -> list[ir.Value]:
        """Each output is made by a node of its own: inputs, constants and values given twice pass an Identity."""
        outputs: list[ir.Value] = []
        taken: set[int] = set()
        for value, name in zip(self.graph.block.outputs, names, strict=True):
            lowered = self.builder.realise(self.argument(value))
            assert lowered.ir is not None
            if lowered.ir.producer() is None or id(lowered.ir) in taken:
                lowered = self.builder.op("Identity", lowered)
            assert lowered.ir is not None
            self.builder.typed(lowered, value.dtype, value.shape)
            taken.add(id(lowered.ir))
            lowered.ir.name = name
            outputs.append(lowered.ir)
        return outputs

    def lower(self, node: Node) -> None:
        """Translate one node. Sizes wait until somebody needs them as tensors."""
        if node.op == BAKED or all(output.size is not None for output in node.outputs):
            for output in node.outputs:
                self.values[output] = Value(None, _dtype(output), (), size=output.size, origin=node)
            return
        results = self._convert(node)
        for output, result in zip(node.outputs, results, strict=True):
            self.values[output] = self._bind(output, result)

    def _convert(self, node: Node) -> Sequence[Any]:
        function = self.registry.find(node.op, node.overload)
        assert function is not None, node.full_name
        arguments = {name: self._argument(argument, node) for name, argument in node.inputs.items()}
        g = self.builder
        before = g.origin, g.outputs
        g.origin, g.outputs = node, node.outputs
        try:
            results = function(g, **arguments)
            return results if isinstance(results, (tuple, list)) else (results,)
        finally:
            g.origin, g.outputs = before

    def realise(self, value: Value) -> Value:
        """Give a size that was not needed as a tensor so far its ONNX form: read it, or compute it as the model did."""
        g = self.builder
        if isinstance(value.size, int):
            return g.constant(value.size, value.dtype)
        if value.origin is not None and value.origin.op != BAKED and value.size not in g.carriers:
            (made,) = self._convert(value.origin)
        else:
            made = self._solved(value)
        value.ir = g.cast(g.realise(made), value.dtype).ir
        return value

    def _solved(self, value: Value) -> Value:
        """A number that is a size, or an expression of sizes."""
        numbers = value.size.at if isinstance(value.size, Dim) else value.origin.inputs["at"] if value.origin else ()
        try:
            if isinstance(value.size, Dim):
                return sizes.scalar(self.builder, value.size)
            return sizes.solved_float(self.builder, numbers)
        except sizes.UnknownSize:
            source = value.origin.source if value.origin else None
            raise DynamicAxisError(
                f"{source or self.builder.where()}: a number is {sizes.shown(numbers)} at the sizes tried: Python "
                "computed it from a size of a dynamic axis in a way that could not be found, and the file would be "
                "wrong at every other size. Compute it from x.shape with tensor operations, or leave the axis static."
            ) from None

    def _bind(self, output: captured.Value, result: Value) -> Value:
        """The converter's result under the dtype and shape that the capture saw."""
        if not output.is_tensor:
            return result
        result = self.builder.cast(self.builder.realise(result), output.dtype)
        if result.data is None:
            result = Value(result.ir, output.dtype, output.shape)
            self.builder.typed(result, output.dtype, output.shape)
            self.builder.carry(result)
        return result

    def _argument(self, argument: Any, node: Node) -> Any:
        if isinstance(argument, Varying):
            raise _varying(argument, node)
        if isinstance(argument, list):
            return [self._argument(element, node) for element in argument]
        return map_values(argument, self.argument)

    def argument(self, value: captured.Value) -> Value:
        """The lowered form of a captured value; constants enter the graph when they are first used."""
        found = self.values.get(value)
        if found is None:
            assert value.data is not None, f"{value} is used before it is made"
            found = self.builder.constant(value.data)
            found.size = value.size
            self.values[value] = found
        return found


def check_known(graph: Graph, registry: Registry) -> None:
    """Raise one error that lists every operator without a translation."""
    unknown = [node for node in graph.block.nodes if node.op != BAKED and registry.find(node.op, node.overload) is None]
    if not unknown:
        return
    counts = Counter(node.full_name for node in unknown)
    lines = []
    for name, count in counts.items():
        first = next(node for node in unknown if node.full_name == name)
        place = graph.scope_name(first.scope)
        lines.append(f"  {name} ({count} x), first in {place}" + (f" at {first.source}" if first.source else ""))
    raise UnsupportedOperatorError(
        f"{len(counts)} operator(s) of the model have no translation to ONNX:\n"
        + "\n".join(lines)
        + "\nUse other operators: translations of your own (register_custom_op_symbolic) are not yet supported."
    )


def ir_version(opset: int) -> int:
    """The lowest IR version that carries an opset."""
    return int(onnx.helper.find_min_ir_version_for([onnx.helper.make_operatorsetid("", opset)]))


def _dtype(value: captured.Value) -> torch.dtype:
    if not isinstance(value.type, ScalarType):
        return value.dtype
    if value.size is not None:
        return torch.int64
    # Python computed in double precision: it is rounded to what it is combined with.
    baked = value.node is not None and value.node.op == BAKED
    return torch.float64 if baked else SCALAR_DTYPES[value.type.kind]


def _varying(constant: Varying, node: Node) -> DynamicAxisError:
    shown = ", ".join(_short(content) for content in constant.at)
    return DynamicAxisError(
        f"{constant.source or node.source}: a constant of {node.op} differs between the sizes tried ({shown}): Python "
        "computed it from a size of a dynamic axis, and the file would be wrong at every other size. Compute it from "
        "x.shape with tensor operations, or leave the axis static."
    )


def _short(content: Any) -> str:
    if isinstance(content, torch.Tensor):
        return f"a tensor of shape {list(content.shape)}"
    return repr(content)
