"""Capture of scripted models: their TorchScript graph, read at the example's sizes and at others the model accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.axes import points as axis_points
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

# How many further points are read for slices and comparisons with another outcome there.
MAX_PROBES = 12


def capture_scripted(runner: ModelRunner, axes: list[Axis]) -> Capture:
    if runner.intermediates:
        raise CaptureError(
            "intermediate_outputs: a scripted model has no modules to look into; export the Python module"
        )
    runner.execute(runner.inputs.tensors)  # what the model raises is raised here
    related, points = _points(runner, axes)
    related.check_promises()
    reading, points, warnings = _settled(runner, related.axes, points)
    graph = reading.graph
    named: Any = runner.model
    graph.modules = {"": str(getattr(named, "original_name", None) or getattr(named, "name", "model"))}
    graph.modules |= {path: _class_name(module) for path, module in runner.paths.items() if path}
    for value, name in zip(graph.block.inputs, runner.inputs.names, strict=True):
        value.name = name
    runner.give_lists(reading.result)
    leaves, structure = flatten(reading.result)
    constants = {i: leaf for i, leaf in enumerate(leaves) if not _is_output(leaf)}
    names = [name for i, name in enumerate(structure.names) if i not in constants]
    if not names:
        raise NoTensor
    checks = [point for point in points if point != example_sizes(related.axes)]
    captured = Capture(graph, structure, names, constants, related.axes, points, checks)
    captured.notes, captured.warnings = reading.notes, [*dict.fromkeys(reading.warnings), *warnings]
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

    start = axis_points.starts(axes)[-1]
    if refusal([start]) is not None:
        start = example_sizes(axes)
    related = Relations(axes)
    if any(refusal([row]) is not None for row in axis_points.doubled(axes, start)):
        related = relations(axes, start, refusal)
        start = {axis.label: start[axis.label] for axis in related.axes}
    if not related.axes:
        return related, [{}]
    others = [
        *axis_points.doubled(related.axes, start),
        *axis_points.least(related.axes)[1:],
        *axis_points.nearby(related.axes, start),
    ]
    near = [row for row in others if row != start and axis_points.is_bearable(runner.inputs.tensors, related.axes, row)]
    return related, [start, *(row for row in near if _refusal(runner, related.axes, row) is None)]


def _refusal(runner: ModelRunner, axes: Sequence[Axis], row: Sizes) -> Exception | None:
    """The model's exception at a point that it does not accept."""
    try:
        runner.execute(resize(runner.inputs.tensors, axes, row))
    except REFUSALS_ELSEWHERE as error:
        if is_ours(error):
            raise
        return error
    return None


def _settled(runner: ModelRunner, axes: list[Axis], points: list[Sizes]) -> tuple[Reading, list[Sizes], list[str]]:
    """Read the program at these points, and where a slice or a comparison of sizes has another outcome.

    Returns the last reading, its points, and warnings about outcomes that could not be read.
    """
    tensors = runner.inputs.tensors
    functions = {path for path, module in runner.paths.items() if isinstance(module, runner.module_calls.apart)}
    program = Program(
        runner.model,
        runner.parameters,
        runner.inputs.call,
        runner.inputs.grids,
        functions,
        runner.unranked,
    )

    def read(at: list[Sizes]) -> Reading:
        with runner.in_mode():
            return read_program(replace(program, squeezes=frozenset(squeezes)), tensors, axes, at)

    squeezes: set[Source] = set()
    reading, refused, unread = read(points), list[Sizes](), list[Sizes]()
    for _ in range(MAX_PROBES if axes else 0):
        found = probes(reading.conditions, axes, reading.points, refused + unread, tensors)
        followed = (p for p in found if runner.unranked or p.condition.relation != "squeezed")
        probe = next((p for p in followed if not p.costly), None)
        if probe is None:
            break
        if _refusal(runner, axes, probe.point) is not None:
            refused.append(probe.point)
            continue
        source = probe.condition.source
        if probe.condition.relation == "squeezed" and source is not None and source not in squeezes:
            squeezes.add(source)
            reading = read(points)
            continue
        try:
            reading, points = read([*points, probe.point]), [*points, probe.point]
        except CaptureError:
            unread.append(probe.point)
    return reading, points, _unread_warnings(reading, axes, refused, unread, tensors)


def _unread_warnings(
    reading: Reading,
    axes: Sequence[Axis],
    refused: Sequence[Sizes],
    unread: Sequence[Sizes],
    tensors: Sequence[torch.Tensor],
) -> list[str]:
    """Warnings about squeezes that drop a dynamic axis of size 1, and about sizes at which reading failed."""
    found: dict[Source, str] = {}
    for probe in probes(reading.conditions, axes, reading.points, refused, tensors):
        source = probe.condition.source
        if source is not None and probe.condition.relation == "squeezed":
            found.setdefault(source, _dropped_axis(source, probe.point))
        elif source is not None and probe.point in unread:
            found.setdefault(source, _unread_branch(source, probe.point))
    return list(found.values())


def _unread_branch(source: Source, point: Sizes) -> str:
    """The warning about a condition on sizes if one of its branches is not in the file."""
    label = next(iter(point))
    return (
        f"{source}: a condition on sizes has another outcome at {shown(point)}, where the model could not be read: the "
        "file does not have that branch. Give the axis a range without this size "
        f'(dynamic_shapes with torch.export.Dim("{label}", min=..., max=...)), or write the line without a condition.'
    )


def _dropped_axis(source: Source, point: Sizes) -> str:
    """The warning about a squeeze that drops an axis at sizes which were not tried."""
    return (
        f"{source}: at {shown(point)} this squeeze drops an axis in torch; the file keeps it, as at other sizes. "
        "Name the axes to drop, as in squeeze(-1), or give the axis a range without this size "
        f'(dynamic_shapes with torch.export.Dim("{next(iter(point))}", min=2)).'
    )


def _class_name(module: torch.nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))


def _is_output(leaf: object) -> bool:
    return isinstance(leaf, (torch.Tensor, SequencePlaceholder))
