"""Capture of scripted models: their own graph, at the example's sizes and at others that the model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes, example_sizes, resize, shown
from onnxport.capture.axes.relations import Relations, relations
from onnxport.capture.captured import Capture
from onnxport.capture.model.refusals import REFUSALS_ELSEWHERE, NoTensor, is_ours
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.model.structure import SequencePlaceholder, flatten
from onnxport.capture.script import Program, Reading, read_program
from onnxport.capture.script.probes import probes
from onnxport.errors import CaptureError
from onnxport.graph.ir import Source

# How many further points are read at where a cut or a comparison of sizes turns out otherwise.
MOST_PROBES = 12


def capture_scripted(runner: ModelRunner, axes: list[Axis]) -> Capture:
    if runner.intermediates:
        raise CaptureError(
            "intermediate_outputs: a scripted model has no modules to look into; export the Python module"
        )
    runner.execute(runner.inputs.tensors)  # what the model raises is raised here
    related, points = _points(runner, axes)
    related.check_promises()
    reading, points, untried = _settled(runner, related.axes, points)
    graph = reading.graph
    named: Any = runner.model
    graph.modules = {"": str(getattr(named, "original_name", None) or getattr(named, "name", "model"))}
    graph.modules |= {path: _class_name(module) for path, module in runner.paths.items() if path}
    for value, name in zip(graph.block.inputs, runner.inputs.names, strict=True):
        value.name = name
    runner.result = reading.result
    leaves, structure = flatten(reading.result)
    constants = {i: leaf for i, leaf in enumerate(leaves) if not _is_output(leaf)}
    names = [name for i, name in enumerate(structure.names) if i not in constants]
    if not names:
        raise NoTensor
    checks = [point for point in points if point != example_sizes(related.axes)]
    captured = Capture(graph, structure, names, constants, related.axes, points, checks)
    captured.notes, captured.warnings = reading.notes, untried
    captured.fixed = [axis.label for axis, _ in related.static]
    captured.axis_warnings = list(related.warnings())
    return captured


def _points(runner: ModelRunner, axes: list[Axis]) -> tuple[Relations, list[Sizes]]:
    """The axes that vary, and points of them at which the model runs."""
    if not axes:
        return Relations(axes), [{}]

    def refusal(rows: Sequence[Sizes]) -> Exception | None:
        first = None
        for row in rows:
            error = _refusal(runner, axes, row)
            if error is None:
                return None
            first = first or error
        return first

    start = rows_at.starts(axes)[-1]
    if refusal([start]) is not None:
        start = example_sizes(axes)
    related = Relations(axes)
    if any(refusal([row]) is not None for row in rows_at.doubled(axes, start)):
        related = relations(axes, start, refusal)
        start = {axis.label: start[axis.label] for axis in related.axes}
    if not related.axes:
        return related, [{}]
    others = [
        *rows_at.doubled(related.axes, start),
        *rows_at.least(related.axes)[1:],
        *rows_at.nearby(related.axes, start),
    ]
    near = [row for row in others if row != start and rows_at.is_bearable(runner.inputs.tensors, related.axes, row)]
    return related, [start, *(row for row in near if _refusal(runner, related.axes, row) is None)]


def _refusal(runner: ModelRunner, axes: Sequence[Axis], row: Sizes) -> Exception | None:
    """What the model says to a point that it does not take."""
    try:
        runner.execute(resize(runner.inputs.tensors, axes, row))
    except REFUSALS_ELSEWHERE as error:
        if is_ours(error):
            raise
        return error
    return None


def _settled(runner: ModelRunner, axes: list[Axis], points: list[Sizes]) -> tuple[Reading, list[Sizes], list[str]]:
    """The program read at these points and at those where a cut or a comparison of sizes turns out otherwise, and
    warnings of what could not be tried there."""
    tensors = runner.inputs.tensors
    program = Program(runner.model, runner.parameters, runner.inputs.call)

    def read(at: list[Sizes]) -> Reading:
        with runner.in_mode():
            return read_program(program, tensors, axes, at)

    reading, refused, untold = read(points), list[Sizes](), list[Sizes]()
    for _ in range(MOST_PROBES if axes else 0):
        found = probes(reading.doubts, axes, reading.points, refused + untold, tensors)
        probe = next((p for p in found if not p.costly and p.doubt.relation != "squeezed"), None)
        if probe is None:
            break
        if _refusal(runner, axes, probe.point) is not None:
            refused.append(probe.point)
            continue
        try:
            reading, points = read([*points, probe.point]), [*points, probe.point]
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
    for probe in probes(reading.doubts, axes, reading.points, refused, tensors):
        source = probe.doubt.source
        if source is not None and probe.doubt.relation == "squeezed":
            found.setdefault(source, _dropped_axis(source, probe.point))
        elif source is not None and probe.point in untold:
            found.setdefault(source, _untried_condition(source, probe.point))
    return list(found.values())


def _untried_condition(source: Source, point: Sizes) -> str:
    """The warning for a condition on sizes of which one side is not in the file."""
    label = next(iter(point))
    return (
        f"{source}: a condition on sizes turns out otherwise at {shown(point)}, which was not tried: what the model "
        "does there is not in the file. Give the axis a range without it "
        f'(dynamic_shapes with torch.export.Dim("{label}", min=..., max=...)), or write this without a condition.'
    )


def _dropped_axis(source: Source, point: Sizes) -> str:
    """The warning of a squeeze that drops an axis at sizes which were not tried."""
    return (
        f"{source}: at {shown(point)} this squeeze drops an axis that the file keeps, which follows the other sizes. "
        "Name the axes to drop, as in squeeze(-1), or give the axis a range without that size "
        f'(dynamic_shapes with torch.export.Dim("{next(iter(point))}", min=2)).'
    )


def _class_name(module: torch.nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))


def _is_output(leaf: object) -> bool:
    return isinstance(leaf, (torch.Tensor, SequencePlaceholder))
