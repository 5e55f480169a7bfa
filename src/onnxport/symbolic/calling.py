"""Calls of users' functions: converts arguments for them, and their results for the walk."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxport.errors import CustomOperatorError, ExportError
from onnxport.graph import ir as captured
from onnxport.graph.ir import Node, Parameter
from onnxport.lower import value as lower
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converters
from onnxport.symbolic.helpers.constants import _parse_arg
from onnxport.symbolic.objects.graph import GraphContext
from onnxport.symbolic.objects.types import CODES, LAYOUTS, MEMORY_FORMATS
from onnxport.symbolic.objects.values import Value
from onnxport.symbolic.quantizing import note_quantizers

ANY_WAY = inspect.Parameter.POSITIONAL_OR_KEYWORD

# The opset of the export that is calling a symbolic function: old functions read it from symbolic_helper.
CURRENT_OPSET: contextvars.ContextVar[int | None] = contextvars.ContextVar("onnxport_opset", default=None)


def call_classic(function: Callable[..., Any], g: Builder, arguments: Mapping[str, Any], builtins: Converters) -> Any:
    """Call ``function(graph, *values)`` with all arguments of the operator's schema as values, in their order.

    Keyword-only arguments of the schema are passed by name, if the function has a parameter for them.
    """
    with running(function, g, builtins) as graph:
        node = graph.original_node.node
        given = _complete(node, arguments)
        named = _by_name(function, node)
        taken = _trimmed(function, node, {name: value for name, value in given.items() if name not in named}, named)
        values = {name: as_classic(graph, given[name]) for name in (*taken, *named)}
        graph.original_node.values = list(values.values())
        keywords = {name: values[name] for name in named}
        results = results_of(graph, called(graph, function, [values[name] for name in taken], keywords))
        note_quantizers(node, arguments, results)
        return results


def called(
    graph: GraphContext, function: Callable[..., Any], values: Sequence[Any], keywords: Mapping[str, Any], *first: Any
) -> Any:
    """Call a symbolic function. The arguments of one with torch's ``parse_args`` are converted as that says."""
    signature = _signature(function)
    try:
        if signature is not None:
            signature.bind(*first, graph, *values, **keywords)
    except TypeError as error:
        raise CustomOperatorError(
            f"{_name(function)} is called with the graph and {len(values) + len(keywords)} arguments: {error} "
            f"(occurred when translating {graph.builder.where()})"
        ) from None
    descriptors = getattr(function, "_arg_descriptors", None)
    if descriptors is not None:
        if len(values) > len(descriptors):
            raise CustomOperatorError(
                f"{_name(function)} has parse_args for {len(descriptors)} arguments and is given {len(values)} "
                f"(occurred when translating {graph.builder.where()})"
            )
        values = [_parse_arg(v, d, arg_name=_name(function)) for v, d in zip(values, descriptors, strict=False)]
    return function(*first, graph, *values, **keywords)


def call_modern(function: Callable[..., Any], g: Builder, arguments: Mapping[str, Any], builtins: Converters) -> Any:
    """Call ``function(graph, **arguments)``: tensors as values, constants as Python values."""
    with running(function, g, builtins) as graph:
        node = graph.original_node.node
        given = _complete(node, arguments)
        accepted = _names_taken(function)
        if accepted is not None:
            _check_ignored(graph, node, {name: given[name] for name in given if name not in accepted})
            given = {name: argument for name, argument in given.items() if name in accepted}
        results = results_of(graph, function(graph, **{name: as_modern(graph, a) for name, a in given.items()}))
        note_quantizers(node, arguments, results)
        return results


@contextlib.contextmanager
def running(function: Callable[..., Any], g: Builder, builtins: Converters) -> Iterator[GraphContext]:
    """The graph object for one call. Exceptions of the function get a note with the line of the model."""
    assert g.origin is not None
    graph = GraphContext(g, g.origin, builtins)
    token = CURRENT_OPSET.set(g.opset)
    try:
        yield graph
        graph.close()
    except ExportError:
        raise
    except BaseException as error:
        note = getattr(error, "add_note", None)  # from Python 3.11 on
        if note is not None:
            note(f"raised in {_name(function)}, the translation of {g.where()}")
        raise
    finally:
        CURRENT_OPSET.reset(token)


def results_of(graph: GraphContext, returned: Any) -> list[lower.Value | None]:
    """The function's results, one tensor for each result of the operator."""
    node = graph.original_node.node
    if isinstance(returned, Value) and returned.elements is not None:
        returned = returned.elements
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(results) != len(node.outputs):
        raise CustomOperatorError(
            f"{graph.builder.where()}: its translation returns {len(results)} values, the operator has "
            f"{len(node.outputs)} results"
        )
    return [_result(graph, index, result) for index, result in enumerate(results)]


def _result(graph: GraphContext, index: int, result: Any) -> lower.Value | None:
    node = graph.original_node.node
    if result is None or (isinstance(result, Value) and result.is_none):
        output = node.outputs[index]
        block = graph.builder.context.graph.block
        if output in block.outputs or any(output in other.values() for other in block.nodes):
            raise CustomOperatorError(
                f"{graph.builder.where()}: its translation returns None for result {index}, which the model uses"
            )
        return None
    return _apart(graph, graph.tensor(result), node.outputs[index])


def _apart(graph: GraphContext, result: lower.Value, output: captured.Value) -> lower.Value:
    """A copy of a result that is an existing value of another type: it will get the output's type."""
    made = {id(value) for added in graph.builder.nodes[graph.nodes_before :] for value in added.outputs}
    same = not output.is_tensor or (result.dtype == output.dtype and result.shape == output.shape)
    if same or result.data is not None or id(result.ir) in made:
        return result
    apart: lower.Value = graph.builder.op("Identity", result)
    return apart


def as_classic(graph: GraphContext, argument: Any) -> Value:
    """An argument as a value. A dtype, layout or memory format is TorchScript's number for it."""
    if isinstance(argument, torch.dtype):
        argument = CODES[argument]
    elif isinstance(argument, torch.memory_format):
        argument = MEMORY_FORMATS[argument]
    elif isinstance(argument, torch.layout):
        argument = LAYOUTS.get(argument, 0)
    return graph.value(argument)


def as_modern(graph: GraphContext, argument: Any) -> Any:
    """Tensors as values; anything else unchanged."""
    if isinstance(argument, lower.Value):
        return graph.wrap(argument)
    if isinstance(argument, (list, tuple)):
        return [as_modern(graph, element) for element in argument]
    return argument


def _complete(node: Node, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the order of the schema, with defaults for missing ones."""
    schema = node.schema
    if schema is None:
        return dict(arguments)
    given = {p.name: arguments.get(p.name, p.default) for p in schema.parameters}
    return given | {name: argument for name, argument in arguments.items() if name not in given}


def _by_name(function: Callable[..., Any], node: Node) -> list[str]:
    """The keyword-only arguments of the schema that the function has a parameter for."""
    signature = _signature(function)
    if signature is None or node.schema is None or hasattr(function, "_arg_descriptors"):
        return []
    first = sum(not p.keyword_only for p in node.schema.parameters) + 1  # the graph comes first
    behind = {
        p.name
        for index, p in enumerate(signature.parameters.values())
        if p.kind is inspect.Parameter.KEYWORD_ONLY or (p.kind is ANY_WAY and index >= first)
    }
    return [p.name for p in node.schema.parameters if p.keyword_only and p.name in behind]


def _trimmed(function: Callable[..., Any], node: Node, given: Mapping[str, Any], named: Sequence[str]) -> Sequence[str]:
    """The arguments to pass by position: functions written for older versions of an operator do not take what came
    later. ``named`` are those that are given by name."""
    names = list(given)
    limit = _most_positional(function, named)
    defaults = _defaults(node)
    while limit is not None and len(names) > limit and _is_default(defaults.get(names[-1]), given[names[-1]]):
        names.pop()
    return names


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


def _most_positional(function: Callable[..., Any], named: Sequence[str]) -> int | None:
    """How many arguments after the graph a function takes by position; None for any number."""
    signature = _signature(function)
    if signature is None:
        return None
    parameters = [p for p in signature.parameters.values() if p.name not in named]
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (inspect.Parameter.POSITIONAL_ONLY, ANY_WAY) for p in parameters) - 1


def _names_taken(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names of the arguments that a function takes; None for all."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def _defaults(node: Node) -> dict[str, Parameter]:
    return {p.name: p for p in node.schema.parameters if not p.required} if node.schema else {}


def _is_default(parameter: Parameter | None, argument: Any) -> bool:
    if parameter is None or isinstance(argument, lower.Value):
        return False
    if parameter.default is None and argument is False:  # an option that is off, or not mentioned
        return True
    return type(argument) is type(parameter.default) and bool(argument == parameter.default)


def _check_ignored(graph: GraphContext, node: Node, ignored: Mapping[str, Any]) -> None:
    """What a function does not take must have its default: its meaning would be lost."""
    defaults = _defaults(node)
    for name, argument in ignored.items():
        if not _is_default(defaults.get(name), argument):
            raise CustomOperatorError(
                f"{graph.builder.where()}: {name}={argument!r} is given, and the converter does not take {name}; its "
                "arguments have the names of the operator's schema"
            )
