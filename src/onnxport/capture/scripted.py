"""Capture of scripted models: their own graph, at the example's sizes and at others that the model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture import sizes
from onnxport.capture.script import Program, read_program
from onnxport.capture.sizes import Axis, Sizes
from onnxport.capture.structure import SequencePlaceholder, flatten
from onnxport.capture.together import REFUSALS
from onnxport.capture.trace import Capture, Tracer, capture
from onnxport.errors import CaptureError, DynamicAxisError


def capture_model(tracer: Tracer, axes: list[Axis]) -> Capture:
    """The model by its own graph if it is scripted, else by tracing it."""
    captured = capture_scripted(tracer, axes) if compat.scripts.is_scripted(tracer.model) else capture(tracer, axes)
    if tracer.warmth is not None:
        captured.notes = [*captured.notes, *tracer.warmth.notes]
        captured.warnings = [*captured.warnings, *tracer.warmth.warnings]
    return captured


def capture_scripted(tracer: Tracer, axes: list[Axis]) -> Capture:
    if tracer.intermediates:
        raise CaptureError(
            "intermediate_outputs: a scripted model has no modules to look into; export the Python module"
        )
    tracer.execute(tracer.inputs.tensors)  # what the model raises is raised here
    points = _points(tracer, axes)
    with tracer.in_mode():
        program = Program(tracer.model, tracer.parameters, tracer.inputs.call)
        reading = read_program(program, tracer.inputs.tensors, axes, points)
    graph = reading.graph
    named: Any = tracer.model
    graph.modules = {"": str(getattr(named, "original_name", None) or getattr(named, "name", "model"))}
    graph.modules |= {path: _class_name(module) for path, module in tracer.paths.items() if path}
    for value, name in zip(graph.block.inputs, tracer.inputs.names, strict=True):
        value.name = name
    tracer.result = reading.result
    leaves, structure = flatten(reading.result)
    constants = {i: leaf for i, leaf in enumerate(leaves) if not _is_output(leaf)}
    names = [name for i, name in enumerate(structure.names) if i not in constants]
    if not names:
        raise CaptureError("the model returns no tensor: there is nothing to export")
    captured = Capture(graph, structure, names, constants, axes, points)
    captured.notes = reading.notes
    return captured


def _points(tracer: Tracer, axes: Sequence[Axis]) -> list[Sizes]:
    """The example's sizes and others at which the model runs."""
    if not axes:
        return [{}]
    example = sizes.example_sizes(axes)
    points = [example] if sizes.traces_example(axes) else []
    refusal: Exception | None = None
    for _ in range(sizes.points_needed(axes)):
        point, error = _accepted(tracer, axes, points)
        refusal = refusal or error
        points += [] if point is None else [point]
    if len(points) == 1 and example not in points:
        points.append(example)  # one other size is all that the model takes, even if the example's is 1
    if len(points) < 2:
        raise DynamicAxisError(
            f"the model refuses every other size of its dynamic axes: {type(refusal).__name__}: {refusal}. "
            "Leave an axis that cannot vary out of dynamic_axes, or give axes that must be equal one name."
        ) from refusal
    return points


def _accepted(tracer: Tracer, axes: Sequence[Axis], taken: Sequence[Sizes]) -> tuple[Sizes | None, Exception | None]:
    """The first of the points worth trying that the model takes, or why it took none."""
    static = frozenset(length for tensor in tracer.inputs.tensors for length in tensor.shape)
    refusal: Exception | None = None
    for point in sizes.attempts(axes, taken, static):
        if point in taken:
            continue
        try:
            tracer.execute(sizes.resize(tracer.inputs.tensors, axes, point))
        except REFUSALS as error:
            refusal = refusal or error
            continue
        return point, None
    return None, refusal


def _class_name(module: torch.nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))


def _is_output(leaf: object) -> bool:
    return isinstance(leaf, (torch.Tensor, SequencePlaceholder))
