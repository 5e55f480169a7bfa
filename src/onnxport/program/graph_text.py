"""The graph as text: one line per node, with types, attributes, module path and source line, and its blocks."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import onnx_ir as ir

from onnxport.graph.ir import Graph

KINDS = {
    "FLOAT": "Float", "DOUBLE": "Double", "FLOAT16": "Half", "BFLOAT16": "BFloat16", "INT64": "Long", "INT32": "Int",
    "INT16": "Short", "INT8": "Char", "UINT8": "Byte", "BOOL": "Bool",
}  # fmt: skip
# Larger tensors are shown by their shapes.
MAX_ELEMENTS = 8
BRANCHES = ("then_branch", "else_branch")


def print_graph(model: ir.Model, captured: Graph, parameters: Collection[str]) -> None:
    print(format_graph(model, captured, parameters))


def format_graph(model: ir.Model, captured: Graph, parameters: Collection[str]) -> str:
    """``graph(%input : Float(1, 3), %weight : …):`` with a line per node and ``return (%output)``.

    Initializers with names of parameters are inputs of the graph; others are constants, shown with their values.
    """
    return "\n".join(_Text(model.graph, captured, parameters).lines())


class _Text:
    """The text of one graph: inputs, parameters and outputs have their names, other values numbers."""

    def __init__(self, graph: ir.Graph, captured: Graph, parameters: Collection[str]) -> None:
        self._graph = graph
        self._captured = captured
        stored = graph.initializers.values()
        self._entries = list(dict.fromkeys([*graph.inputs, *(v for v in stored if v.name in parameters)]))
        self._named = {*self._entries, *graph.outputs}
        taken = {value.name for value in self._named}
        self._free = (number for number in itertools.count(len(taken)) if str(number) not in taken)
        self._numbers: dict[ir.Value, str] = {}

    def lines(self) -> Iterator[str]:
        entries = (",\n" + " " * 6).join(map(self._typed, self._entries))
        yield f"graph({entries}):"
        yield from self._body(self._graph, "  ")
        yield f"  return ({self._names(self._graph.outputs)})"

    def _body(self, graph: ir.Graph, indent: str) -> Iterator[str]:
        for value in graph.initializers.values():
            if value not in self._named:
                shown = "" if value.const_value is None else f"[value={_tensor(value.const_value)}]"
                yield f"{indent}{self._typed(value)} = onnx::Constant{shown}()"
        for node in graph:
            outputs = ", ".join(map(self._typed, node.outputs))
            kind = f"{node.domain or 'onnx'}::{node.op_type}"
            inputs = self._names(node.inputs)
            yield f"{indent}{outputs} = {kind}{_attributes(node)}({inputs}){self._place(node)}"
            for number, block in enumerate(_blocks(node)):
                yield f"{indent}  block{number}({', '.join(map(self._typed, block.inputs))}):"
                yield from self._body(block, f"{indent}    ")
                yield f"{indent}    -> ({self._names(block.outputs)})"

    def _names(self, values: Collection[ir.Value | None]) -> str:
        return ", ".join(map(self._name, values))

    def _name(self, value: ir.Value | None) -> str:
        if value is None:
            return "None"
        if value in self._named:
            return f"%{value.name}"
        if value not in self._numbers:
            self._numbers[value] = f"%{next(self._free)}"
        return self._numbers[value]

    def _typed(self, value: ir.Value) -> str:
        return f"{self._name(value)} : {_type(value)}"

    def _place(self, node: ir.Node) -> str:
        origin = node.meta.get("origin")
        if origin is None:
            return ""
        source = f" # {origin.source.short}" if origin.source else ""
        return f", scope: {self._captured.scope_name(origin.scope)}{source}"


def _blocks(node: ir.Node) -> list[ir.Graph]:
    """The branches of an If in their order, or the body of a loop."""
    found = {name: attr.as_graph() for name, attr in node.attributes.items() if attr.type == ir.AttributeType.GRAPH}
    return [found[name] for name in (*(b for b in BRANCHES if b in found), *(n for n in found if n not in BRANCHES))]


def _type(value: ir.Value) -> str:
    if value.dtype is None:
        return "Tensor"
    kind = KINDS.get(value.dtype.name, value.dtype.name)
    if isinstance(value.type, ir.SequenceType):
        return f"{kind}[]"
    if value.shape is not None:
        dims = (str(dim) if isinstance(dim, int) else str(dim.value or "?") for dim in value.shape)
        kind = f"{kind}({', '.join(dims)})"
    return f"Optional({kind})" if isinstance(value.type, ir.OptionalType) else kind


def _attributes(node: ir.Node) -> str:
    found = sorted((name, a) for name, a in node.attributes.items() if a.type != ir.AttributeType.GRAPH)
    return f"[{', '.join(f'{name}={_attribute(attr)}' for name, attr in found)}]" if found else ""


def _attribute(attr: ir.Attr) -> str:
    if attr.type == ir.AttributeType.TENSOR:
        return _tensor(attr.as_tensor())
    return str(list(attr.value)) if isinstance(attr.value, (list, tuple)) else repr(attr.value)


def _tensor(tensor: ir.TensorProtocol) -> str:
    if tensor.size > MAX_ELEMENTS:
        return f"<Tensor {list(tensor.shape)}>"
    content = tensor.numpy().tolist()
    return str(content) if isinstance(content, list) else f"{{{content}}}"
