"""Capture by recording: the model's run, its graph at every size of the dynamic axes, and what there is to tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from onnxport.capture import drawing
from onnxport.capture.frozen import FrozenValue
from onnxport.capture.paths.explore import Explorer, Found
from onnxport.capture.record.numbers import CARRIERS
from onnxport.capture.recorded import input_shapes
from onnxport.capture.sizes import Axis, Sizes, form_name
from onnxport.capture.trace import Capture, Tracer
from onnxport.errors import DynamicAxisError
from onnxport.graph.dims import Dim


def capture_recorded(tracer: Tracer, axes: list[Axis]) -> Capture:
    found = Explorer(tracer, axes).explore()
    for axis, reason in found.static:
        if axis.promised:
            raise DynamicAxisError(f"dynamic_shapes: the model does not take another size of {axis.label!r}: {reason}")
    run, graph = found.run, found.built.graph
    graph.axes = _labels(tracer, found.axes, found.rows)
    graph.modules = {"": getattr(tracer.model, "__name__", type(tracer.model).__name__)}
    graph.modules |= {path: type(module).__name__ for path, module in tracer.paths.items()}
    for value, name in zip(graph.block.inputs, tracer.inputs.names, strict=True):
        value.name = name
    constants = {
        i: leaf
        for i, leaf in enumerate(run.leaves)
        if not isinstance(leaf, torch.Tensor) and type(leaf) not in CARRIERS
    }
    names = [n for i, n in enumerate(run.structure.names) if i not in constants] + list(tracer.intermediates)
    frozen = [
        FrozenValue(read.how, read.value, read.source, harmless=read.by_torch or not depends)
        for read, depends in found.built.frozen
    ]
    captured = Capture(graph, run.structure, names, constants, found.axes, found.points, frozen)
    captured.checks = found.checks
    captured.fixed = [axis.label for axis, _ in found.static]
    captured.axis_warnings = list(_axis_warnings(found))
    captured.warnings += found.narrowed
    if run.draws:
        captured.warnings.append(drawing.message(lambda: tracer.execute(tracer.inputs.tensors)))
    return captured


def _axis_warnings(found: Found) -> Iterator[str]:
    for axis, reason in found.static:
        if not axis.optional:
            yield (
                f"dynamic_axes: {axis.label!r} is {axis.size} in the file: the model does not take another size of it "
                f"({reason})"
            )
    for left, right in found.equal:
        yield f"dynamic_axes: {left!r} and {right!r} have to be equal; both are {left!r} in the file"


def _labels(tracer: Tracer, axes: Sequence[Axis], rows: Sequence[Sizes]) -> dict[Dim, str]:
    """The names of the inputs' dimensions: those of the axes, and those that were given to sums of them."""
    shapes = input_shapes(tracer.inputs.tensors, axes, rows)
    labels: dict[Dim, str] = {}
    for axis in axes:
        for place in axis.places:
            size = shapes[place[0]][place[1]]
            if isinstance(size, Dim):
                labels.setdefault(size, axis.aliases.get(place) or _name(axis, place))
    return labels


def _name(axis: Axis, place: tuple[int, int]) -> str:
    own = form_name(axis.label, axis.forms[place]) if place in axis.forms else axis.label
    return " + ".join((own, *axis.plus.get(place, ())))
