"""Calls of modules as calls of ONNX functions.

The nodes of a call are translated into a separate body, which has access only to its inputs: the tensors that the nodes
read, parameters included, and sizes that those tensors do not have. Small constants are part of the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxport.graph import ir as captured
from onnxport.graph.ir import Block, Node, Scope
from onnxport.graph.sizes import SizeExpr
from onnxport.lower import complexes
from onnxport.lower.builder import Builder, Context
from onnxport.lower.subgraphs.lowering import NodeLowering
from onnxport.lower.value import Value

# Constants up to this size are part of a function's body; larger ones are inputs.
OWN_CONSTANT_BYTES = 1024


@dataclass(frozen=True)
class FunctionName:
    """The name of a module's function, and the attributes of its calls."""

    domain: str
    name: str
    attributes: Mapping[str, int | float | str]


# The function for each module path.
FunctionNames = Mapping[str, FunctionName]


@dataclass(frozen=True)
class Calls:
    """The modules that become functions, and the functions so far; inner ones come before their callers."""

    names: FunctionNames
    made: list[ir.Function]

    def lower(self, lowering: NodeLowering, nodes: Sequence[Node], used_later: set[captured.Value]) -> None:
        """Translate the nodes of a graph; calls of these modules become function calls."""
        self._lower(lowering, nodes, 0, used_later)

    def lower_block(self, lowering: NodeLowering, node: Node, block: Block) -> None:
        """Translate the nodes in a block of a node, which may be inside a function."""
        around = node.scope.calls if isinstance(node.scope, Scope) else ()
        self._lower(lowering, block.nodes, len(around), set(block.outputs))

    def _lower(
        self, lowering: NodeLowering, nodes: Sequence[Node], depth: int, used_later: set[captured.Value]
    ) -> None:
        last_reads = {value: index for index, node in enumerate(nodes) for value in _read(node)}
        last_reads |= dict.fromkeys(used_later, len(nodes))
        start = 0
        while start < len(nodes):
            call = _call(nodes[start], depth)
            end = start + 1
            if call is None:
                lowering.lower(nodes[start])
            else:
                while end < len(nodes) and _call(nodes[end], depth) == call:
                    end += 1
                made = [value for node in nodes[start:end] for value in node.outputs]
                leaving = [value for value in made if last_reads.get(value, start) >= end]
                self._call(lowering, nodes[start:end], depth + 1, leaving, call[1])
            start = end

    def _call(
        self, lowering: NodeLowering, nodes: Sequence[Node], depth: int, leaving: Sequence[captured.Value], path: str
    ) -> None:
        """One call: its body, the function, and the node that calls it."""
        body = _Body(lowering, path)
        inside = set(_made(nodes))
        with lowering.inside(body.builder, body.values):
            for value in _tensors_read(nodes, inside):
                lowering.argument(value)
            self._lower(lowering, nodes, depth, set(leaving))
            results = {value: lowering.argument(value) for value in leaving}
            returned = body.returned(results)
        lowering.values.update({v: _size_only(result) for v, result in results.items() if v not in returned})
        if not returned:
            return
        called = self.names[path]
        domain, kind, attributes = called.domain, called.name, dict(called.attributes)
        name = f"{kind}:{len(self.made)}"
        self.made.append(body.function(domain, name, kind, list(returned.values()), attributes))
        outer = lowering.builder
        before, outer.origin = outer.origin, nodes[0].like(f"{domain}::{kind}", {}, [])
        outer.origin.scope = path
        types = [(value.dtype, value.shape) for value in returned.values()]
        made = outer.foreign(f"{domain}::{kind}", body.outer, types, attributes)
        outer.nodes[-1].op_type = name
        outer.origin = before
        for (value, inner), result in zip(returned.items(), made, strict=True):
            assert result.ir is not None and inner.ir is not None
            result.ir.type, result.size = inner.ir.type, inner.size
            outer.carry(result)
            is_complex = isinstance(results[value], complexes.Complex)
            lowering.values[value] = complexes.from_joined(outer, result) if is_complex else result


class _Body:
    """The inside of a function under construction. ``outer`` are the outside values that are its inputs."""

    def __init__(self, lowering: NodeLowering, path: str) -> None:
        self._lowering = lowering
        self._path = path
        self._outer_builder = lowering.builder
        self._outer_values = lowering.values
        outer = lowering.builder.context
        self.context = Context(
            outer.graph, outer.opset, train=outer.train, exact_nan=outer.exact_nan, weights_stay=outer.weights_stay
        )
        self.builder = Builder(self.context, lowering.realise)
        self.builder.carriers = _Carriers(self)
        self.values: dict[captured.Value, Value] = _Values(self)
        self.inputs: list[ir.Value] = []
        self.outer: list[Value] = []

    def enter(self, value: captured.Value) -> Value | None:
        """An outside value inside the body; None for a small constant, which becomes part of the body."""
        known = self._outer_values.get(value)
        if known is None and not self._lowering.is_parameter(value):
            assert value.data is not None, f"{value} is used before it is made"
            if value.data.nbytes <= OWN_CONSTANT_BYTES:
                return None
        if known is None:
            with self._lowering.inside(self._outer_builder, self._outer_values):
                known = self._lowering.argument(value)
        if (
            known.data is not None
            and known.data.nbytes <= OWN_CONSTANT_BYTES
            and self._outer_builder.is_constant(known)
        ):
            return self.builder.constant(known.data)
        if _is_size(known) and (isinstance(known.size, int) or known.size in self.builder.carriers):
            return _size_only(known)
        if isinstance(known, complexes.Complex):
            joined = known.joined(self._outer_builder)
            return complexes.from_joined(self.builder, self.input(joined, value.name))
        return self.input(known, value.name)

    def input(self, outside: Value, name: str = "") -> Value:
        """A new input of the function for an outside value."""
        with self._lowering.inside(self._outer_builder, self._outer_values, forget=False):
            outside = self._outer_builder.realise(outside)
        assert outside.ir is not None
        name = (name or outside.ir.name or "input").removeprefix(f"{self._path}.")
        inside = Value(ir.Value(name=self.context.unique(name)), outside.dtype, outside.shape, size=outside.size)
        self.builder.typed(inside, outside.dtype, outside.shape)
        self.builder.carry(inside)
        assert inside.ir is not None
        inside.ir.type = outside.ir.type
        self.inputs.append(inside.ir)
        self.outer.append(outside)
        return inside

    def carrier(self, dim: SizeExpr) -> tuple[Value, int] | None:
        """An outside value with a size that no value inside has."""
        found = self._outer_builder.carriers.get(dim)
        return None if found is None else (self.input(found[0]), found[1])

    def returned(self, results: Mapping[captured.Value, Value]) -> dict[captured.Value, Value]:
        """The function's results, each the output of a separate node; sizes only if no outside value has them."""
        outputs: dict[captured.Value, Value] = {}
        for value, result in results.items():
            if _is_size(result) and (isinstance(result.size, int) or result.size in self._outer_builder.carriers):
                continue
            if isinstance(result, complexes.Complex):
                result = result.joined(self.builder)
            result = self.builder.realise(result)
            assert result.ir is not None
            if result.ir.producer() is None or any(result.ir is other.ir for other in outputs.values()):
                made = self.builder.op("Identity", result).ir
            else:
                made = result.ir
            # New values: the tensor of a size inside is not valid outside.
            outputs[value] = Value(made, result.dtype, result.shape, size=result.size)
        return outputs

    def function(
        self, domain: str, name: str, kind: str, outputs: Sequence[Value], attributes: Mapping[str, int | float | str]
    ) -> ir.Function:
        """The function; its graph has the name of the module's class. Names inside are relative to the module.

        Its attributes distinguish the calls; the body does not read them.
        """
        for node in self.builder.nodes:
            node.name = self._own_name(node.name)
            for output in node.outputs:
                output.name = self._own_name(output.name)
        graph = ir.Graph(
            self.inputs,
            [value.ir for value in outputs if value.ir is not None],
            nodes=self.builder.nodes,
            initializers=list(self.context.initializers.values()),
            opset_imports={"": self.context.opset},
            name=kind,
        )
        declared = [ir.Attr(name, _kind(value), None) for name, value in attributes.items()]
        return ir.Function(domain, name, graph=graph, attributes=declared)

    def _own_name(self, name: str | None) -> str:
        full = name or ""
        short = full.removeprefix(f"{self._path}.").removeprefix(f"{self._path}/")
        return full if short != full and self.context.knows(short) else short


class _Values(dict[captured.Value, Value]):
    """The values of a body; an outside value becomes an input when it is first read."""

    def __init__(self, body: _Body) -> None:
        super().__init__()
        self._body = body

    def get(self, key: captured.Value, default: Any = None) -> Any:
        if key not in self:
            entered = self._body.enter(key)
            if entered is None:
                return default
            self[key] = entered
        return self[key]


class _Carriers(dict[SizeExpr, tuple[Value, int]]):
    """The values from which a body reads sizes: its own, and outside ones for declared axes if necessary."""

    def __init__(self, body: _Body) -> None:
        super().__init__()
        self._body = body

    def get(self, key: SizeExpr, default: Any = None) -> Any:
        if key not in self and (key in self._body.context.graph.axes or key.is_leaf):
            found = self._body.carrier(key)
            if found is not None:
                self[key] = found
        return super().get(key, default)


def _kind(value: float | str) -> ir.AttributeType:
    if isinstance(value, str):
        return ir.AttributeType.STRING
    return ir.AttributeType.FLOAT if isinstance(value, float) else ir.AttributeType.INT


def _is_size(value: Value) -> bool:
    """Whether a value is a size that was not needed as a tensor so far."""
    return value.ir is None and isinstance(value.size, (int, SizeExpr))


def _size_only(value: Value) -> Value:
    """A size that each block computes for itself."""
    return Value(None, value.dtype, (), size=value.size)


def _call(node: Node, depth: int) -> tuple[int, str] | None:
    calls = node.scope.calls if isinstance(node.scope, Scope) else ()
    return calls[depth] if len(calls) > depth else None


def _read(node: Node) -> Iterator[captured.Value]:
    yield from node.values()
    for block in node.blocks:
        yield from block.outer_values()


def _made(nodes: Iterable[Node]) -> Iterator[captured.Value]:
    """The results of nodes, and the values of their blocks."""
    for node in nodes:
        yield from node.outputs
        for block in node.blocks:
            yield from block.inputs
            yield from _made(block.nodes)


def _tensors_read(nodes: Sequence[Node], inside: set[captured.Value]) -> list[captured.Value]:
    read = (value for node in nodes for value in _read(node) if value not in inside)
    return list(dict.fromkeys(value for value in read if value.is_tensor and value.size is None))
