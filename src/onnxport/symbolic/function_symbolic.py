"""Autograd Functions with a ``symbolic``, which is called with the arguments of ``apply``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.errors import UnsupportedOperatorError
from onnxport.graph.ir import PythonCall
from onnxport.lower import value as lower
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converters
from onnxport.symbolic.calling import called, results_of, running
from onnxport.symbolic.objects.graph import GraphContext
from onnxport.symbolic.objects.nodes import OriginalNode
from onnxport.symbolic.quantizing import note_quantizers


@dataclass(frozen=True)
class SymbolicContext:
    """What symbolic functions get first that ask for ``ctx``: the node at hand and the model's parameters."""

    params_dict: dict[str, torch.Tensor]
    cur_node: OriginalNode
    onnx_block: GraphContext


def call_function(
    g: Builder, arguments: Mapping[str, Any], builtins: Converters, symbolic: Callable[..., Any] | None
) -> Any:
    """The results of a call of an autograd Function, by its ``symbolic`` or the function registered for all of them."""
    call: PythonCall = arguments["call"]
    if symbolic is None:
        raise UnsupportedOperatorError(f"{g.where()}: the autograd Function {call.function.__name__} has no symbolic")
    with running(symbolic, g, builtins) as graph:
        values = [
            _argument(graph, arguments.get(str(index), constant)) for index, constant in enumerate(call.arguments)
        ]
        graph.original_node.values = values
        first = [SymbolicContext(graph.params_dict, graph.original_node, graph)] if _wants_context(symbolic) else []
        keywords = {} if hasattr(call.function, "symbolic") else {"name": call.function.__name__}
        returned = called(graph, symbolic, values, keywords, *first)
        results = results_of(graph, _tensors_of(call, returned))
        note_quantizers(graph.original_node.node, arguments, results)
        return results


def _argument(graph: GraphContext, argument: Any) -> Any:
    """Tensors as values; anything else as it was given."""
    return graph.wrap(argument) if isinstance(argument, lower.Value) else argument


def _tensors_of(call: PythonCall, returned: Any) -> Any:
    """One value for each tensor among the results: a symbolic function may return something for the others as well."""
    if isinstance(returned, (tuple, list)) and len(returned) == len(call.tensors) and not all(call.tensors):
        return [result for result, is_tensor in zip(returned, call.tensors, strict=True) if is_tensor]
    return returned


def _wants_context(symbolic: Callable[..., Any]) -> bool:
    names = list(inspect.signature(symbolic).parameters)
    return len(names) > 1 and names[0] == "ctx"


def python_node(
    g: Builder, arguments: Mapping[str, Any], types: Sequence[tuple[torch.dtype, Any]]
) -> Sequence[lower.Value]:
    """The call as a node ``prim::PythonOp``: what only the model's Python code can compute.

    Tensors are its inputs. Its attributes are the name and module of the Function, ``cconv`` with a letter for each
    argument (d for a tensor, c for anything else), and the others as Python writes them.
    """
    call: PythonCall = arguments["call"]
    given = [arguments.get(str(index)) for index in range(len(call.arguments))]
    inputs = [value for value in given if isinstance(value, lower.Value)]
    attributes = {
        "name": call.function.__name__,
        "module": call.function.__module__,
        "cconv": "".join("d" if isinstance(value, lower.Value) else "c" for value in given),
        "scalar_args": [
            repr(constant if value is None else value)
            for value, constant in zip(given, call.arguments, strict=True)
            if not isinstance(value, lower.Value)
        ]
        or None,
    }
    return g.foreign("prim::PythonOp", inputs, types, attributes)
