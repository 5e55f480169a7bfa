"""The graph as text: one line per node, with types, attributes, module path and source line."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graph.ir import Graph

KINDS = {
    "FLOAT": "Float", "DOUBLE": "Double", "FLOAT16": "Half", "BFLOAT16": "BFloat16", "INT64": "Long", "INT32": "Int",
    "INT16": "Short", "INT8": "Char", "UINT8": "Byte", "BOOL": "Bool",
}  # fmt: skip


def print_graph(model: ir.Model, captured: Graph) -> None:
    print(format_graph(model, captured))


def format_graph(model: ir.Model, captured: Graph) -> str:
    """``graph(%input : Float(1, 3), %weight : …):`` with a line per node and ``return (%output)``."""
    graph = model.graph
    named = {*graph.inputs, *graph.initializers.values(), *graph.outputs}
    numbers: dict[ir.Value, str] = {}

    def name(value: ir.Value | None) -> str:
        if value is None:
            return "%"
        if value in named:
            return f"%{value.name}"
        return numbers.setdefault(value, f"%{len(named) + len(numbers)}")

    entries = list(dict.fromkeys([*graph.inputs, *graph.initializers.values()]))
    lines = [f"graph({(',' + chr(10) + '      ').join(f'{name(value)} : {_type(value)}' for value in entries)}):"]
    for node in graph.all_nodes():
        outputs = ", ".join(f"{name(value)} : {_type(value)}" for value in node.outputs)
        inputs = ", ".join(name(value) for value in node.inputs)
        kind = f"{node.domain or 'onnx'}::{node.op_type}"
        lines.append(f"  {outputs} = {kind}{_attributes(node)}({inputs}){_origin(node, captured)}")
    lines.append(f"  return ({', '.join(name(value) for value in graph.outputs)})")
    return "\n".join(lines)


def _type(value: ir.Value) -> str:
    if value.dtype is None:
        return "Tensor"
    kind = KINDS.get(value.dtype.name, value.dtype.name)
    if value.shape is None:
        return kind
    return f"{kind}({', '.join(str(dim) if isinstance(dim, int) else str(dim.value or '?') for dim in value.shape)})"


def _attributes(node: ir.Node) -> str:
    if not node.attributes:
        return ""
    shown = ", ".join(f"{name}={_attribute(attr)}" for name, attr in sorted(node.attributes.items()))
    return f"[{shown}]"


def _attribute(attr: ir.Attr) -> str:
    if attr.type == ir.AttributeType.TENSOR:
        tensor = attr.as_tensor()
        return str(tensor.numpy().tolist()) if tensor.size <= 8 else f"<Tensor {list(tensor.shape)}>"
    if attr.type == ir.AttributeType.GRAPH:
        return "<Graph>"
    return str(list(attr.value)) if isinstance(attr.value, (list, tuple)) else repr(attr.value)


def _origin(node: ir.Node, captured: Graph) -> str:
    origin = node.meta.get("origin")
    if origin is None:
        return ""
    source = f" # {origin.source}" if origin.source else ""
    return f", scope: {captured.scope_name(origin.scope)}{source}"
