"""Capture by recording: the graph of a recorded model for all sizes of the dynamic axes, with notes and warnings."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.capture.axes.axis import Axis
from onnxport.capture.axes.labels import input_labels
from onnxport.capture.build.choices import Unexplained
from onnxport.capture.captured import Capture, FrozenValue
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.paths.explore import Explorer
from onnxport.capture.paths.forced.frozen_conditions import FrozenCondition, TooManyRuns
from onnxport.capture.paths.forced.python_loops import is_end
from onnxport.capture.paths.path_runs import Found, unexplained
from onnxport.capture.record import drawing
from onnxport.capture.record.numbers.carriers import CARRIERS
from onnxport.capture.record.record import Read
from onnxport.capture.record.run import input_shapes
from onnxport.errors import CaptureError


class NotInFile(CaptureError):
    """Data decide when a loop ends, and the file would have its iterations on the example."""


def capture_recorded(runner: ModelRunner, axes: list[Axis]) -> Capture:
    """The captured graph. Where a loop that data end cannot be one, it is a nest of branches, if that can be."""
    try:
        return _captured(runner, axes)
    except NotInFile:
        if not runner.finds_loops:
            raise
        runner.take_loops_apart()
        return _captured(runner, axes)


def _captured(runner: ModelRunner, axes: list[Axis]) -> Capture:
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
    frozen = [_frozen(read, depends, found.left) for read, depends in found.built.frozen]
    captured = Capture(graph, run.structure, names, constants, axes, found.points, found.checks, frozen)
    captured.spare_checks = found.spare
    captured.branches_on_data = found.branches_on_data
    captured.fixed = [axis.label for axis, _ in found.related.static]
    captured.axis_warnings = list(found.related.warnings())
    captured.notes += dict.fromkeys([*found.notes, *(left.note for left in found.left if left.refuses)])
    captured.warnings += [*found.narrowed, *found.built.warnings]
    if run.draws:
        captured.warnings.append(drawing.message(lambda: runner.execute(runner.inputs.tensors)))
    return captured


def _explored(runner: ModelRunner, axes: list[Axis]) -> Found:
    """The result of exploring a model; repeated if a bool among its results turned out to vary."""
    found = _with_branches(runner, axes)
    truths = {index for index, seen in runner.truths_seen.items() if len(seen) > 1}
    if truths <= runner.truths:
        return found
    runner.give_truths(truths)
    return _with_branches(runner, axes)


def _with_branches(runner: ModelRunner, axes: list[Axis]) -> Found:
    """The result with branches on data. If these cannot be captured, their conditions are frozen."""
    left: list[FrozenCondition] = []
    while True:
        explorer = Explorer(runner, axes)
        try:
            found = _explored_once(explorer)
        except TooManyRuns as error:
            left += [FrozenCondition(line, False, str(error), unexplored=True) for line in explorer.runs.counted]
            runner.decide_counted()
        except CaptureError as error:
            if not explorer.runs.merged:
                raise
            left += [
                FrozenCondition(line, False, f"both sides of it are no graph ({error})")
                for line in explorer.runs.merged
            ]
            runner.decide_conditions()
        else:
            found.left += left
            return found


def _explored_once(explorer: Explorer) -> Found:
    """One exploration. A number that no run explains is an error wherever it comes up."""
    try:
        return explorer.explore()
    except Unexplained as found:
        raise unexplained(found, explorer.runs.sides) from None


def _frozen(read: Read, depends: bool, left: Sequence[FrozenCondition]) -> FrozenValue:
    """A value that Python read. A condition is harmless if the model itself raises an error for the other outcome, and
    an error if it ends a loop that is none of the file; with more paths than are followed nobody knows that."""
    is_decided = type(read.value) is bool or read.how == "__index__"
    asked = [one for one in left if one.source == read.source and is_decided]
    refuses = bool(asked) and all(one.refuses and one.outcome is not read.value for one in asked)
    reason = next((one.reason for one in asked if not one.refuses), "")
    harmless = read.by_torch or not depends or refuses
    unexplored = any(one.unexplored for one in asked)
    if reason and not (harmless or unexplored) and is_end(read.source):
        raise NotInFile(
            f"{read.source}: data decide when this loop ends, and it cannot be a loop of the file: {reason}. Let every "
            "iteration do the same, write the loop with torch.while_loop or in a @torch.jit.script function, or export "
            'with control_flow="trace", which gives the file the iterations of the example for all data.'
        )
    return FrozenValue(read.how, read.value, read.source, harmless, drawn=read.drawn, reason=reason)
