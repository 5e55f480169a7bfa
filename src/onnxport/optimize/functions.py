"""The functions of a model: each is simplified, and equal ones are merged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator

import onnx_ir as ir

from onnxport.optimize.rewrite import constant_to_node


def settle_functions(
    model: ir.Model, simplify: Callable[[ir.Model], None], untouched: Collection[ir.OperatorIdentifier] = ()
) -> None:
    """Simplify each function's body, then let equal modules share one function; those ``untouched`` stay as they are.

    Functions come before those that call them, so that calls inside a body are settled when bodies are compared.
    """
    kept: dict[Hashable, ir.Function] = {}
    count: dict[tuple[str, str], int] = {}
    for identifier, function in list(model.functions.items()):
        if identifier in untouched:
            continue
        simplify(ir.Model(function.graph, ir_version=model.ir_version or 0))
        _constants_to_nodes(function.graph)
        _forget_types(function.graph)
        kind = function.domain, _class_of(function)
        key = (*kind, tuple(function.attributes), _signature(function.graph))
        twin = kept.get(key)
        del model.functions[identifier]
        name = twin.name if twin is not None else kind[1] if kind not in count else f"{kind[1]}.{count[kind]}"
        _rename_calls(model, function, name)
        if twin is None:
            count[kind] = count.get(kind, 0) + 1
            function.name = name
            kept[key] = function
            model.functions[function.identifier()] = function
    for function in model.functions.values():
        model.opset_imports.setdefault(function.domain, 1)
        for node in function.graph.all_nodes():
            function.opset_imports.setdefault(node.domain, 1)
            model.opset_imports.setdefault(node.domain, 1)


def _class_of(function: ir.Function) -> str:
    return str(function.graph.name)


def _rename_calls(model: ir.Model, function: ir.Function, name: str) -> None:
    graphs = [model.graph, *(other.graph for other in model.functions.values())]
    for node in (node for graph in graphs for node in graph.all_nodes()):
        if (node.domain, node.op_type) == (function.domain, function.name):
            node.op_type = name


def _constants_to_nodes(graph: ir.Graph) -> None:
    """A function has no initializers."""
    first = graph[0] if len(graph) else None
    for name in list(graph.initializers):
        constant_to_node(graph, name, first)


def _forget_types(graph: ir.Graph) -> None:
    """Remove types and shapes: they are those of one call, and the function has several."""
    for value in (*graph.inputs, *(output for node in graph for output in node.outputs)):
        value.type = value.shape = None
    for node in graph.all_nodes():
        node.doc_string = None


def _signature(graph: ir.Graph) -> Hashable:
    """Equal for graphs with the same structure, whatever the names of their values."""
    return tuple(_described(graph, {}))


def _described(graph: ir.Graph, numbers: dict[ir.Value | None, int]) -> Iterator[Hashable]:
    def number(value: ir.Value | None) -> int | None:
        return None if value is None else numbers.setdefault(value, len(numbers))

    yield tuple(number(value) for value in graph.inputs)
    for node in graph:
        attributes = []
        for name, attribute in sorted(node.attributes.items()):
            if attribute.type == ir.AttributeType.GRAPH:
                attributes.append((name, tuple(_described(attribute.as_graph(), numbers))))
            elif attribute.type == ir.AttributeType.TENSOR:
                tensor = attribute.as_tensor()
                attributes.append((name, (tensor.dtype, tuple(tensor.shape), tensor.tobytes())))
            else:
                attributes.append((name, ir.to_proto(attribute).SerializeToString()))
        inputs, outputs = (tuple(number(value) for value in side) for side in (node.inputs, node.outputs))
        yield node.domain, node.op_type, inputs, outputs, tuple(attributes)
    yield tuple(number(value) for value in graph.outputs)
