"""Capture of scripted models: their own graph, at the example's sizes and at others that the model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture import sizes, ties
from onnxport.capture.paths.capture import capture_recorded
from onnxport.capture.probes import probes
from onnxport.capture.refusals import REFUSALS
from onnxport.capture.script import Program, Reading, read_program
from onnxport.capture.selected import records
from onnxport.capture.sizes import Axis, Sizes
from onnxport.capture.structure import SequencePlaceholder, flatten
from onnxport.capture.together import PROBES
from onnxport.capture.trace import Capture, Tracer, capture
from onnxport.capture.untried import dropped_axis, untried_condition
from onnxport.errors import CaptureError, DynamicAxisError
from onnxport.graph.ir import Source


def capture_model(tracer: Tracer, axes: list[Axis]) -> Capture:
    """The model by its own graph if it is scripted, else by tracing it."""
    if compat.scripts.is_scripted(tracer.model):
        captured = capture_scripted(tracer, axes)
    elif records():
        captured = capture_recorded(tracer, axes)
    else:
        captured = capture(tracer, axes)
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
    axes, points = _points(tracer, axes)
    reading, points, untried = _settled(tracer, axes, points)
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
    captured.warnings = untried
    return captured


def _settled(tracer: Tracer, axes: list[Axis], points: list[Sizes]) -> tuple[Reading, list[Sizes], list[str]]:
    """The program read at these points and at those where a cut or a comparison of sizes turns out otherwise, and
    warnings of what could not be tried there."""
    tensors = tracer.inputs.tensors
    program = Program(tracer.model, tracer.parameters, tracer.inputs.call)

    def read(at: list[Sizes]) -> Reading:
        with tracer.in_mode():
            return read_program(program, tensors, axes, at)

    reading, refused, untold = read(points), list[Sizes](), list[Sizes]()
    for _ in range(PROBES if axes else 0):
        found = probes(reading.graph.doubts, axes, reading.points, refused + untold, tensors)
        probe = next((p for p in found if not p.costly and p.doubt.relation != "squeezed"), None)
        if probe is None:
            break
        try:
            tracer.execute(sizes.resize(tensors, axes, probe.point))
            reading, points = read([*points, probe.point]), [*points, probe.point]
        except REFUSALS:
            refused.append(probe.point)
        except CaptureError:
            untold.append(probe.point)
    return reading, points, _untried(reading, axes, refused, untold, tensors)


def _untried(
    reading: Reading,
    axes: Sequence[Axis],
    refused: Sequence[Sizes],
    untold: Sequence[Sizes],
    tensors: Sequence[torch.Tensor],
) -> list[str]:
    """Warnings of squeezes that drop a dynamic axis where its size is 1, and of sizes that could not be read."""
    found: dict[Source, str] = {}
    for probe in probes(reading.graph.doubts, axes, reading.points, refused, tensors):
        source = probe.doubt.source
        if source is not None and probe.doubt.relation == "squeezed":
            found.setdefault(source, dropped_axis(source, probe.point))
        elif source is not None and probe.point in untold:
            found.setdefault(source, untried_condition(source, probe.point))
    return list(found.values())


def _points(tracer: Tracer, axes: list[Axis]) -> tuple[list[Axis], list[Sizes]]:
    """The example's sizes and others at which the model runs; axes that were given by index are tied together if it
    needs that."""
    if not axes:
        return axes, [{}]
    refusal: Exception | None = None
    for candidates in ties.candidates(axes, lambda tied: len(_points_of(tracer, tied)[0]) > 1):
        points, error = _points_of(tracer, candidates)
        if len(points) > 1:
            return candidates, points
        refusal = refusal or error
    raise DynamicAxisError(
        f"the model refuses every other size of its dynamic axes: {type(refusal).__name__}: {refusal}. "
        "Leave an axis that cannot vary out of dynamic_axes, or give axes that must be equal one name."
    ) from refusal


def _points_of(tracer: Tracer, axes: Sequence[Axis]) -> tuple[list[Sizes], Exception | None]:
    """Points of these axes, and what the model said to the first that it refused."""
    example = sizes.example_sizes(axes)
    points = [example] if sizes.traces_example(axes) else []
    refusal: Exception | None = None
    for _ in range(sizes.points_needed(axes)):
        point, error = _accepted(tracer, axes, points)
        refusal = refusal or error
        points += [] if point is None else [point]
    if len(points) == 1 and example not in points:
        points.append(example)  # one other size is all that the model takes, even if the example's is 1
    return points, refusal


def _accepted(tracer: Tracer, axes: Sequence[Axis], taken: Sequence[Sizes]) -> tuple[Sizes | None, Exception | None]:
    """The first of the points worth trying that the model takes, or why it took none."""
    refusal: Exception | None = None
    for point in sizes.attempts(axes, taken, tracer.inputs.tensors):
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
