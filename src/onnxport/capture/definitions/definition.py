"""torch's decomposition of an operator, recorded on tensors with the sizes of the operator's arguments."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.build.graph import GraphBuilder
from onnxport.capture.record.arguments import mapped
from onnxport.capture.record.numbers.carriers import CARRIERS, carried
from onnxport.capture.record.numbers.carriers import number_of as recorded_number
from onnxport.capture.record.record import Number, Record
from onnxport.capture.record.recorder import Recorder
from onnxport.capture.record.tensors import functorch
from onnxport.capture.record.tensors.sized_tensors import as_sized
from onnxport.capture.sizes.points import LEAST_POINTS, MorePoints, OneSize
from onnxport.capture.sizes.record_points import RecordPoints
from onnxport.errors import CaptureError, DynamicAxisError, ExportError
from onnxport.graph.functionalize.functionalize import functionalize
from onnxport.graph.ir import Graph, Node, ScalarType, Value, map_values
from onnxport.graph.sizes import Operand, SizeExpr, is_static, leaves_of, number_of, values

# What a decomposition raises for arguments that it does not accept.
FAILURES = (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, KeyError)
# What the builder raises if sizes or conditions do not follow from the arguments.
UNCLEAR = (MorePoints, OneSize, CaptureError, DynamicAxisError)

# In place of a result that was not requested.
NOTHING = torch.zeros(())


def recorded(function: Callable[..., Any], node: Node, captures: int) -> tuple[Graph, list[Value]] | None:
    """The graph of a decomposition and the values for its inputs; None if it cannot be recorded."""
    tensors = list(dict.fromkeys(value for value in node.values() if value.is_tensor))
    scalars = list(dict.fromkeys(value for value in node.values() if not value.is_tensor))
    if not all(value.type in (ScalarType(int), ScalarType(float)) for value in scalars):
        return None
    count = captures if all(value.size is not None for value in scalars) else max(captures, LEAST_POINTS)
    if count > captures and not all(is_static(value.shape) for value in tensors):
        return None
    points = RecordPoints(count, {})
    try:
        recorder, numbers = _run(function, node, tensors, scalars, points)
        if recorder.has_plain_sizes:
            far = functools.partial(_run, function, node, tensors, scalars, points, point=-1)
            if not any(_same_numbers(recorder.record, far, device) for device in ("meta", "cpu")):
                return None
        builder = GraphBuilder(recorder.record, [value.shape for value in tensors], {}, points)
        for number, expression, value in numbers:
            builder.numbers.give(number, expression, value)
        built = builder.build()
        functionalize(built.graph)
    except UNCLEAR:
        return None
    except ExportError:
        raise
    except FAILURES:
        return None
    expressions = [step.expression for step in built.path if isinstance(step.expression, SizeExpr)]
    if points.dead or built.losses or any(_is_known_at_run_time(expression) for expression in expressions):
        return None
    return built.graph, tensors


def _run(
    function: Callable[..., Any],
    node: Node,
    tensors: Sequence[Value],
    scalars: Sequence[Value],
    points: RecordPoints,
    point: int = 0,
    device: str = "cpu",
) -> tuple[Recorder, list[tuple[Number, Operand, Value]]]:
    """One run of the decomposition, and the numbers among its arguments with their expressions and values."""
    dynamic = bool(scalars) or not all(is_static(value.shape) for value in tensors)
    recorder = Recorder(lambda written: None, symbolic=dynamic)
    leaves: dict[Value, Any] = {}
    for value in tensors:
        sizes = [values(size, points.count)[point] for size in value.shape]
        leaves[value] = _content(sizes, value.dtype, device)
        recorder.record.inputs.append(recorder.values.new(leaves[value]))
    numbers: list[tuple[Number, Operand, Value]] = []
    for value in scalars:
        at = points.number(value)
        expression = value.size if value.size is not None else number_of(value, at)
        leaves[value] = carried(at[point], "given")
        numbers.append((recorded_number(leaves[value]), expression, value))
    # A composite operator reads the sizes of tensors in C++.
    in_cpp = dynamic and isinstance(function, compat.dispatch.Composite)
    if in_cpp:
        leaves = {value: as_sized(leaf) for value, leaf in leaves.items()}
    args, kwargs = _arguments(node, leaves)
    with torch.no_grad(), recorder.recording(), functorch.sized(recorder) if in_cpp else contextlib.nullcontext():
        result = function(*args, **kwargs)
    results = [
        NOTHING if leaf is None else leaf for leaf in (result if isinstance(result, (tuple, list)) else (result,))
    ]
    if not all(isinstance(leaf, torch.Tensor) or type(leaf) in CARRIERS for leaf in results):
        raise CaptureError(f"{node.op} returns a plain number, which may differ for other tensors")
    recorder.record.outputs = [
        recorder.ref(leaf) if isinstance(leaf, torch.Tensor) else recorded_number(leaf) for leaf in results
    ]
    return recorder, numbers


def _content(sizes: Sequence[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    """Zeros, which are indices of anything; matrices are identities, which have an inverse."""
    made = torch.zeros(sizes, dtype=dtype, device=device)
    if made.dim() >= 2 and (made.is_floating_point() or made.is_complex()):
        made.diagonal(dim1=-2, dim2=-1).fill_(1)
    return made


def _same_numbers(first: Record, far: Callable[..., tuple[Recorder, Any]], device: str) -> bool:
    """Whether a run at far larger sizes has the same plain numbers: C++ computed none of them from sizes.

    It needs no memory on meta tensors, unless it reads content.
    """
    try:
        second = far(device=device)[0].record
    except FAILURES:
        return False
    if [call.op for call in first.calls] != [call.op for call in second.calls]:
        return False
    pairs = zip(first.calls, second.calls, strict=True)
    return all(_shown((a.args, a.kwargs)) == _shown((b.args, b.kwargs)) for a, b in pairs)


def _shown(tree: Any) -> Any:
    return mapped(tree, lambda leaf: "expression" if isinstance(leaf, Number) else repr(leaf))


def _arguments(node: Node, leaves: dict[Value, Any]) -> tuple[list[Any], dict[str, Any]]:
    schema = node.schema
    assert schema is not None
    arguments = {name: map_values(argument, leaves.__getitem__) for name, argument in node.inputs.items()}
    # By position where the schema allows it: a decomposition may name its parameters differently.
    positional = [arguments.pop(p.name) for p in schema.parameters if not p.keyword_only and p.name in arguments]
    return positional, arguments


def _is_known_at_run_time(expression: Operand) -> bool:
    return isinstance(expression, SizeExpr) and any(leaf.op == "number_of" for leaf in leaves_of(expression))
