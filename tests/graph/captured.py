"""Captured graphs for tests, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.axes.axis import find_axes
from onnxport.capture.capture import capture_model
from onnxport.capture.model.inputs import Inputs
from onnxport.capture.model.runner import ModelRunner
from onnxport.graph.functionalize.functionalize import functionalize
from onnxport.graph.interpret import run, writes
from onnxport.graph.ir import Graph


def captured(
    function: Callable[..., Any], *tensors: torch.Tensor, dynamic: Sequence[Mapping[int, str]] | None = None
) -> Graph:
    """The graph of a function; ``dynamic`` gives for each input the names of its free axes."""
    inputs = Inputs(function, tensors, {})
    declared = dynamic or [{} for _ in tensors]
    axes = find_axes(declared, [True] * len(declared), inputs.tensors)
    return capture_model(ModelRunner(function, inputs, None, ()), axes).graph


def functional(
    function: Callable[..., Any], *tensors: torch.Tensor, dynamic: Sequence[Mapping[int, str]] | None = None
) -> Graph:
    """The functional graph of a function, checked against the function itself."""
    graph = captured(function, *tensors, dynamic=dynamic)
    functionalize(graph)
    assert not any(writes(node) for node in graph.block.nodes)
    check(graph, function, *tensors)
    return graph


def check(graph: Graph, function: Callable[..., Any], *tensors: torch.Tensor) -> None:
    """The graph gives what the function gives, and every value has the type that it says."""
    expected = function(*(tensor.clone() for tensor in tensors))
    actual = run(graph, tensors, on_node=_check_types)
    for result, wanted in zip(actual, expected if isinstance(expected, (tuple, list)) else [expected], strict=True):
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)


def _check_types(node: Any, results: list[Any]) -> None:
    for output, result in zip(node.outputs, results, strict=True):
        if output.is_tensor:
            assert result.dtype == output.dtype, node
            static = [(known, size) for known, size in zip(output.shape, result.shape, strict=True)]
            assert all(known == size for known, size in static if isinstance(known, int)), node


def operators(graph: Graph) -> list[str]:
    """The operators of the graph in order, without their namespace."""
    return [node.op.partition("::")[2] for node in graph.block.nodes]
