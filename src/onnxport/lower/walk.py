"""The walk over the captured graph: each node is translated by its converter, in order."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx.helper
import onnx_ir as ir
import torch

from onnxport.errors import ExportError, UnsupportedOperatorError
from onnxport.graph import ir as captured
from onnxport.graph.constants import Constants
from onnxport.graph.ir import NUMBER, Block, Graph, Node, ScalarType, SequenceType, TensorType, UnrankedType, map_values
from onnxport.lower import complexes, sizes
from onnxport.lower.builder import Builder, Context
from onnxport.lower.dtypes import as_float
from onnxport.lower.quantized import note_rounded, quantized_constant, requantized
from onnxport.lower.registry import Converter, Converters
from onnxport.lower.subgraphs import blocks
from onnxport.lower.subgraphs.blocks import SCALAR_DTYPES
from onnxport.lower.subgraphs.function_calls import Calls, FunctionNames
from onnxport.lower.value import Value

CONTROL_FLOW = {"prim::If": blocks.lower_branch, "prim::Loop": blocks.lower_loop}


class Lowering:
    """One export's translation from the captured graph to ONNX."""

    def __init__(
        self,
        graph: Graph,
        registry: Converters,
        opset: int,
        *,
        bake_parameters: bool,
        train: bool,
        fold_constants: bool = False,
        exact_nan: bool = False,
        weights_stay: bool = False,
        keep_unread: bool = False,
        sizes_as_captured: bool = False,
        function_names: FunctionNames | None = None,
    ) -> None:
        self.graph = graph
        self.registry = registry
        self.context = Context(graph, opset, train=train, exact_nan=exact_nan, weights_stay=weights_stay)
        self.bake_parameters = bake_parameters
        self.constants = Constants(graph) if fold_constants else None
        self.keep_unread = keep_unread
        self.sizes_as_captured = sizes_as_captured
        self.functions = Calls(function_names, []) if function_names else None
        self.values: dict[captured.Value, Value] = {}
        self._parameters: dict[captured.Value, str] = {}
        self._converters: dict[Node, Converter] = {}
        self.builder = self._outermost = Builder(self.context, _weakly(self.realise))
        self._realised: list[Value] = []

    def run(self, input_names: Sequence[str], parameter_names: Sequence[str], output_names: Sequence[str]) -> ir.Model:
        self._converters = known_converters(self.graph, self.registry, self.constants)
        for name in (*input_names, *parameter_names, *output_names):
            self.context.unique(name)
        inputs = [self._input(value, name) for value, name in zip(self.graph.block.inputs, input_names, strict=True)]
        self._parameters = dict(zip(self.graph.parameters, parameter_names, strict=True))
        parameters = [] if self.bake_parameters else [self._input(*item) for item in self._parameters.items()]
        if self.functions is None:
            for node in self.graph.block.nodes:
                self.lower(node)
        else:
            self.functions.lower(self, self.graph.block.nodes, set(self.graph.block.outputs))
        outputs = self._outputs(output_names)
        for value in self._parameters if self.keep_unread else ():
            self.argument(value)
        graph = ir.Graph(
            inputs + parameters,
            outputs,
            nodes=self.builder.nodes,
            initializers=self._initializers(),
            opset_imports={"": self.context.opset, **self.context.domains},
            name=self.graph.modules.get("", "model"),
        )
        made = list(self.context.functions.values())
        made += self.functions.made if self.functions is not None else []
        return ir.Model(graph, ir_version=ir_version(self.context.opset), functions=made)

    def _input(self, value: captured.Value, name: str) -> ir.Value:
        type = stored_type(value.tensor_type)
        lowered = self.builder.typed(Value(ir.Value(name=name), type.dtype, type.shape), type.dtype, type.shape)
        self.builder.carry(lowered)
        self.values[value] = complexes.from_joined(self.builder, lowered) if value.dtype.is_complex else lowered
        assert lowered.ir is not None
        return lowered.ir

    def _initializers(self) -> list[ir.Value]:
        """The stored tensors: the used parameters in their order, then the constants."""
        stored = self.context.initializers
        read = [name for name in self._parameters.values() if name in stored]
        return [stored[name] for name in dict.fromkeys((*read, *stored))]

    def _outputs(self, names: Sequence[str]) -> list[ir.Value]:
        """Each output is the output of a separate node: inputs, constants and repeated values get an Identity."""
        outputs: list[ir.Value] = []
        taken: set[int] = set()
        for value, name in zip(self.graph.block.outputs, names, strict=True):
            lowered = complexes.plain(self.builder, self.argument(value))
            assert lowered.ir is not None
            if lowered.ir.producer() is None or id(lowered.ir) in taken:
                lowered = self.builder.op("Identity", lowered)
            assert lowered.ir is not None
            if isinstance(value.type, SequenceType):
                blocks.bind_sequence(self.builder, value, lowered)
            elif isinstance(value.type, UnrankedType):
                blocks.declare_unranked(self.builder, value.type, lowered)
            elif not isinstance(lowered.ir.type, ir.OptionalType):
                type = stored_type(value.tensor_type)
                self.builder.typed(lowered, type.dtype, type.shape)
            taken.add(id(lowered.ir))
            lowered.ir.name = name
            outputs.append(lowered.ir)
        return outputs

    def lower(self, node: Node) -> None:
        """Translate one node. Sizes are added when they are first needed as tensors."""
        lower_block = CONTROL_FLOW.get(node.op)
        if lower_block is not None:
            g, before = self.builder, self.builder.origin
            g.origin = node
            self.values.update(zip(node.outputs, lower_block(self, node), strict=True))
            g.origin = before
            return
        if node.op == NUMBER or all(output.size is not None for output in node.outputs):
            for output in node.outputs:
                self.values[output] = Value(None, _dtype(output), (), size=output.size, origin=node)
                self.context.numbers[output] = self.values[output]
            return
        results = self._folded(node) if self.constants and node in self.constants else self._convert(node)
        for output, result in zip(node.outputs, results, strict=True):
            if result is not None:
                self.values[output] = self._bind(output, result)
                if not output.is_tensor:
                    self.context.numbers[output] = self.values[output]

    def lower_block(self, node: Node, block: Block) -> None:
        """Translate the nodes in a block of a node."""
        if self.functions is not None:
            self.functions.lower_block(self, node, block)
            return
        for inner in block.nodes:
            self.lower(inner)

    @contextlib.contextmanager
    def inside(
        self, builder: Builder, values: dict[captured.Value, Value] | None = None, *, forget: bool = True
    ) -> Iterator[None]:
        """Add nodes to another block, with its own values. Tensors of sizes made there are not known outside."""
        outer, realised, known = self.builder, self._realised, self.values
        self.builder, self._realised, self.values = builder, [], known if values is None else values
        try:
            yield
        finally:
            for value in self._realised if forget else ():
                value.ir = None
            self.builder, self._realised, self.values = outer, realised, known

    def _convert(self, node: Node) -> Sequence[Any]:
        function = self._converters[node]
        arguments = {name: self._argument(argument) for name, argument in node.inputs.items()}
        g = self.builder
        before = g.origin, g.outputs
        g.origin, g.outputs = node, node.outputs
        try:
            results = function(g, **arguments)
            results = results if isinstance(results, (tuple, list)) else (results,)
            return requantized(g, node, results, self.argument)
        except TypeError as error:
            numbers = [name for name, argument in node.inputs.items() if _is_number(argument)]
            if not numbers or isinstance(error, ExportError):
                raise
            raise UnsupportedOperatorError(
                f"{g.where()}: {' or '.join(map(repr, numbers))} is only known at run time; it has to be a constant in "
                "ONNX. Pass a constant, or choose between constants with if."
            ) from error
        finally:
            g.origin, g.outputs = before

    def _folded(self, node: Node) -> Sequence[Any]:
        """The results of a node that depends on no input: as nodes, which the optimiser folds; or computed by torch,
        where ONNX has no form for them or needs a loop."""
        g, count = self.builder, len(self.builder.nodes)
        assert self.constants is not None
        if node in self._converters:
            with contextlib.suppress(UnsupportedOperatorError):
                results = self._convert(node)
                if not any(map(_has_body, g.nodes[count:])):
                    note_rounded(results, functools.partial(self.constants.results, node))
                    return results
        del g.nodes[count:]
        results = self.constants.results(node)
        if any(result.layout != torch.strided for result in results):
            raise UnsupportedOperatorError(f"{node.full_name} gives a sparse tensor, which has no form in the file")
        return [self.argument(captured.Value(o.type, data=r)) for o, r in zip(node.outputs, results, strict=True)]

    def realise(self, value: Value) -> Value:
        """Add a size to the ONNX graph when it is first needed as a tensor: read it, or compute it as the model did."""
        g = self.builder
        if isinstance(value.size, int):
            return g.constant(value.size, value.dtype)
        readable = value.size in g.carriers and not self.sizes_as_captured
        if value.origin is not None and value.origin.op == NUMBER:
            made = sizes.scalar(g, value.origin.inputs["expression"])
        elif value.origin is not None and not readable:
            (made,) = self._convert(value.origin)
        else:
            assert value.size is not None, "a number without a form is a size"
            made = sizes.scalar(g, value.size)
        realised = g.cast(g.realise(made), value.dtype)
        value.ir, value.data = realised.ir, realised.data
        self._realised.append(value)
        return value

    def _bind(self, output: captured.Value, result: Value) -> Value:
        """The converter's result with the captured dtype and shape."""
        if isinstance(output.type, SequenceType):
            return blocks.bind_sequence(self.builder, output, result)
        if not output.is_tensor:
            return result
        if output.dtype.is_complex:
            return self._bind_complex(output, result)
        dtype = as_float(output.dtype)
        if not result.guessed:
            result = self.builder.cast(self.builder.realise(result), dtype)
        if result.data is None:
            known = result.dtype == dtype and result.shape == output.shape
            result = Value(result.ir, dtype, output.shape)
            if not known:
                self.builder.typed(result, dtype, output.shape)
            self.builder.carry(result)
        return result

    def _bind_complex(self, output: captured.Value, result: Value) -> Value:
        g = self.builder
        bound = complexes.expanded(g, complexes.cast(g, result, output.dtype), output.shape)
        g.carry(bound.parts(g)[0] if bound.has_parts else bound.joined(g))
        return bound

    def _argument(self, argument: Any) -> Any:
        if type(argument) is captured.Value:
            return self.argument(argument)
        if isinstance(argument, list):
            return [self._argument(element) for element in argument]
        return map_values(argument, self.argument)

    def argument(self, value: captured.Value) -> Value:
        """The ONNX value of a captured value; parameters and constants are added when they are first used."""
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = self._stored(value)
        return found

    def is_parameter(self, value: captured.Value) -> bool:
        return value in self._parameters

    def _stored(self, value: captured.Value) -> Value:
        assert value.data is not None, f"{value} is used before it is made"
        name = self._parameters.get(value)
        if value.data.is_quantized:
            return quantized_constant(self.builder, value.data, name)
        if name is None:
            is_complex = value.data.is_complex()
            found = (complexes.constant if is_complex else Builder.constant)(self.builder, value.data)
            found.size = value.size
            return found
        stored = self.builder.initializer(name, complexes.stored(value.data.detach()))
        return complexes.from_joined(self._outermost, stored) if value.dtype.is_complex else stored


def _has_body(node: ir.Node) -> bool:
    return any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values())


def _weakly(realise: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """A weak reference to a method: a strong one would make a reference cycle of everything that is lowered."""
    reference = weakref.WeakMethod(realise)

    def call(value: Value) -> Value:
        method = reference()
        assert method is not None, "sizes are given a form while the graph is lowered"
        return method(value)

    return call


def _is_number(argument: Any) -> bool:
    if isinstance(argument, list):
        return any(map(_is_number, argument))
    return isinstance(argument, captured.Value) and isinstance(argument.type, ScalarType)


def stored_type(type: TensorType) -> TensorType:
    """The dtype and shape of a tensor in the file: complex numbers have a last axis for their two parts."""
    return TensorType(type.dtype.to_real(), (*type.shape, 2)) if type.dtype.is_complex else type


def known_converters(graph: Graph, registry: Converters, constants: Constants | None = None) -> dict[Node, Converter]:
    """The converters of all nodes, or one error that lists every operator without a translation.

    ``constants`` need none: torch computes what has no form in ONNX.
    """
    known = {NUMBER, *CONTROL_FLOW}
    found = {node: registry.of(node) for node in graph.block.all_nodes() if node.op not in known}
    unknown = [node for node, converter in found.items() if converter is None and node not in (constants or ())]
    if not unknown:
        return {node: converter for node, converter in found.items() if converter is not None}
    counts = Counter(map(_operator, unknown))
    lines = []
    for name, count in counts.items():
        first = next(node for node in unknown if _operator(node) == name)
        module = graph.scope_name(first.scope)
        lines.append(f"  {name} ({count} x), first in {module}" + (f" at {first.source}" if first.source else ""))
    raise UnsupportedOperatorError(
        f"{len(counts)} operator(s) of the model have no translation to ONNX:\n"
        + "\n".join(lines)
        + "\nTranslate them yourself with onnxport.register_custom_op_symbolic or @onnxport.converter "
        "(see help(onnxport.converter)), or use other operators."
    )


def _operator(node: Node) -> str:
    return f"{node.full_name} on complex numbers" if node.is_complex else node.full_name


def ir_version(opset: int) -> int:
    """The lowest IR version that carries an opset."""
    return int(onnx.helper.find_min_ir_version_for([onnx.helper.make_operatorsetid("", opset)]))


def _dtype(value: captured.Value) -> torch.dtype:
    if not isinstance(value.type, ScalarType):
        return value.dtype
    if value.size is not None:
        return torch.int64
    # Python computes in double precision: round to the dtype of the other operands.
    computed = value.node is not None and value.node.op == NUMBER
    return torch.float64 if computed else SCALAR_DTYPES[value.type.kind]
