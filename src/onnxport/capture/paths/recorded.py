"""Capture by recording: the model's run, its graph at every size of the dynamic axes, and what there is to tell."""

from __future__ import annotations

import torch

from onnxport.capture.axes.axis import Axis
from onnxport.capture.axes.labels import input_labels
from onnxport.capture.captured import Capture, FrozenValue
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.paths.explore import Explorer, Found
from onnxport.capture.record import drawing
from onnxport.capture.record.numbers.carriers import CARRIERS
from onnxport.capture.record.run import input_shapes


def capture_recorded(runner: ModelRunner, axes: list[Axis]) -> Capture:
    found = _explored(runner, axes)
    found.related.check_promises()
    run, graph = found.run, found.built.graph
    axes = found.related.axes
    graph.axes = input_labels(input_shapes(runner.inputs.tensors, axes, found.rows), axes)
    graph.modules = {"": getattr(runner.model, "__name__", type(runner.model).__name__)}
    graph.modules |= {path: type(module).__name__ for path, module in runner.paths.items()}
    for value, name in zip(graph.block.inputs, runner.inputs.names, strict=True):
        value.name = name
    constants = {
        i: leaf
        for i, leaf in enumerate(run.leaves)
        if not isinstance(leaf, torch.Tensor) and type(leaf) not in CARRIERS
    }
    names = [n for i, n in enumerate(run.structure.names) if i not in constants] + list(runner.intermediates)
    frozen = [
        FrozenValue(read.how, read.value, read.source, harmless=read.by_torch or not depends)
        for read, depends in found.built.frozen
    ]
    captured = Capture(graph, run.structure, names, constants, axes, found.points, found.checks, frozen)
    captured.spare_checks = found.spare
    captured.fixed = [axis.label for axis, _ in found.related.static]
    captured.axis_warnings = list(found.related.warnings())
    captured.notes += dict.fromkeys(found.notes)
    captured.warnings += [*found.narrowed, *found.built.warnings]
    if run.draws:
        captured.warnings.append(drawing.message(lambda: runner.execute(runner.inputs.tensors)))
    return captured


def _explored(runner: ModelRunner, axes: list[Axis]) -> Found:
    found = Explorer(runner, axes).explore()
    truths = {place for place, seen in runner.truths_seen.items() if len(seen) > 1}
    if truths <= runner.truths:
        return found
    runner.truths |= truths
    return Explorer(runner, axes).explore()
