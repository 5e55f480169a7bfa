"""Capture of scripted models: TorchScript's graph, read at several points of the dynamic axes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.axes.labels import input_labels
from onnxport.capture.model.structure import SequencePlaceholder
from onnxport.capture.record.run import input_shapes
from onnxport.capture.script import builtins, contents, lists, numbers, predicates, structures
from onnxport.capture.script.arguments import argument_item, outer
from onnxport.capture.script.builtins import Unresolved
from onnxport.capture.script.control_flow import control, loops
from onnxport.capture.script.items import Item, Maybe, ScriptDict, ScriptList, ScriptObject, Text
from onnxport.capture.script.places import Frame, Place, Raised
from onnxport.capture.script.reader import Handler, Reader, item_of
from onnxport.capture.script.rows import Coincidence, Rows
from onnxport.capture.sizes.doubts import Doubt
from onnxport.capture.sizes.guesses import MorePoints, OneSize, Settled
from onnxport.capture.sizes.meta_runs import TooLarge
from onnxport.capture.sizes.points import Points
from onnxport.errors import CaptureError
from onnxport.graph.ir import Block, Graph, ScalarType, SequenceType, TensorType, Value

MOST_READINGS = 40

HANDLERS: dict[str, Handler] = {
    **lists.HANDLERS,
    **structures.HANDLERS,
    **builtins.HANDLERS,
    **contents.HANDLERS,
    **predicates.HANDLERS,
    **numbers.HANDLERS,
    "prim::If": control.branch,
    "prim::Loop": loops.loop,
}


@dataclass
class Program:
    """A scripted model as it is read: its graph, its object, and its parameters by identity."""

    model: Any
    parameters: Sequence[tuple[str, torch.Tensor]]
    call: Callable[[Callable[..., Any], Sequence[Any]], Any]


@dataclass
class Reading:
    """The captured graph, and the result of the program with placeholders for the tensors of the graph.

    ``points`` are the sizes that its dimensions have one after another, ``doubts`` pairs of sizes on whose relation the
    result depends.
    """

    graph: Graph
    result: Any
    points: Sequence[Sizes]
    notes: list[str]
    doubts: list[Doubt]


def read_program(
    program: Program, tensors: Sequence[torch.Tensor], axes: Sequence[Axis], points: list[Sizes]
) -> Reading:
    """Read the model at these points, at which it ran, and at others."""
    settled: Settled = {}
    rows, inlined = Rows(points, axes), False
    for _ in range(MOST_READINGS):
        at = rows.all()
        found = Points(len(at), dict(settled), [at.index(row) for row in at], rows.large)
        found.tell_apart = rows.tell_apart
        reader = Reader(found, HANDLERS)
        try:
            reading = _read(program, tensors, axes, at, reader, inlined=inlined)
            if not rows.goes_beyond(reader.largest):
                return reading
            settled.clear()
        except MorePoints:
            rows.repeat()
        except OneSize as one:
            one.settle(settled)
        except Coincidence:
            settled.clear()
        except Unresolved:
            inlined = True
        except Raised as raised:
            raise CaptureError(f"{raised.place.where}: the model raises an exception here for every input") from None
        except CaptureError as error:
            if not (rows.shrink() if isinstance(error, TooLarge) else rows.drop()):
                raise
            settled.clear()
    raise CaptureError("the sizes in this scripted model depend on each other in a way that could not be found")


def _read(
    program: Program,
    tensors: Sequence[torch.Tensor],
    axes: Sequence[Axis],
    rows: Sequence[Sizes],
    reader: Reader,
    *,
    inlined: bool,
) -> Reading:
    graph = compat.scripts.script_graph(program.model, inlined=inlined)
    place = Place(graph.param_node(), Frame(graph))
    parameters = {id(tensor): _parameter(name, tensor) for name, tensor in program.parameters}
    shapes = input_shapes(tensors, axes, rows)
    inputs = [Value(TensorType(tensor.dtype, shape)) for tensor, shape in zip(tensors, shapes, strict=True)]
    for size in (size for shape in shapes for size in shape):
        reader.points.explain(size)
    given, keywords = program.call(lambda *args, **kwargs: (args, kwargs), inputs)
    arguments = _arguments(reader, place, compat.scripts.script_parameters(program.model), given, keywords)
    if compat.scripts.is_script_module(program.model):
        arguments.insert(0, module_item(compat.scripts.script_object(program.model), "", parameters))
    result = reader.call(graph, arguments)
    outputs: list[Value] = []
    shown = _placeholders(reader, place, result, outputs)
    captured = Graph(Block(inputs, reader.nodes, outputs), list(parameters.values()), captures=len(rows))
    captured.axes = input_labels(shapes, axes)
    return Reading(captured, shown, rows, reader.notes, reader.points.doubts)


def _parameter(name: str, tensor: torch.Tensor) -> Value:
    return Value(TensorType(tensor.dtype, tuple(tensor.shape)), name=name, data=tensor)


def module_item(script: Any, path: str, parameters: Mapping[int, Value]) -> ScriptObject:
    """A module of the program; its attributes are read when they are asked for."""
    loaded: dict[str, Item] = {}

    def load(name: str) -> Item:
        if name not in loaded:
            content = script.getattr(name)
            inner = f"{path}.{name}" if path else name
            if compat.scripts.is_script_object(content):
                loaded[name] = module_item(content, inner, parameters)
            elif isinstance(content, torch.Tensor) and id(content) in parameters:
                loaded[name] = parameters[id(content)]
            else:
                loaded[name] = outer(item_of(content, None))
        return loaded[name]

    found = ScriptObject(compat.scripts.script_type_name(script), load, script=script, path=path)
    found.serial = 0
    return found


def _arguments(
    reader: Reader, place: Place, parameters: Sequence[Any], given: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Item]:
    """The arguments of the call in the order of the schema; numbers are read from 0-dim tensors."""
    items = []
    for index, parameter in enumerate(parameters):
        if index < len(given):
            value = given[index]
        elif parameter.name in keywords:
            value = keywords[parameter.name]
        elif parameter.has_default_value():
            value = parameter.default_value
        else:
            raise CaptureError(f"args: the argument {parameter.name!r} of the scripted model is missing")
        items.append(argument_item(reader, place, value, parameter.type))
    return items


def _as_output(reader: Reader, place: Place, state: Value) -> Value:
    """A list as an output: floats in the precision that a tensor of them would have."""
    if not state.is_tensor or state.dtype != torch.float64:
        return state
    return reader.converted(place, state, torch.float32)


def _placeholders(reader: Reader, place: Place, item: Item, outputs: list[Value]) -> Any:
    """The result as Python data: an empty tensor for each tensor, whose value is added to ``outputs``."""
    if isinstance(item, Value):
        if isinstance(item.type, ScalarType):
            dtype = {int: torch.int64, float: torch.float32, bool: torch.bool}[item.type.kind]
            item = reader.as_tensor(place, item, dtype)
        outputs.append(item)
        return SequencePlaceholder() if isinstance(item.type, SequenceType) else torch.empty(0, dtype=item.dtype)
    if isinstance(item, ScriptList):
        if item.items is None:
            return _placeholders(reader, place, _as_output(reader, place, item.state), outputs)
        return [_placeholders(reader, place, part, outputs) for part in item.items]
    if isinstance(item, tuple):
        return tuple(_placeholders(reader, place, part, outputs) for part in item)
    if isinstance(item, ScriptDict):
        return {key: _placeholders(reader, place, part, outputs) for key, part in item.state.items()}
    if isinstance(item, Maybe) and isinstance(item.item, Value) and item.item.is_tensor:
        given = {"present": item.present, "tensor": item.item}
        outputs += reader.add(place, "onnxport::optional", [item.item.tensor_type], **given)
        return torch.empty(0, dtype=item.item.dtype)
    if isinstance(item, (ScriptObject, Maybe, Text)):
        kind = {ScriptObject: "an object", Maybe: "an optional value that is no tensor", Text: "a text"}[type(item)]
        raise CaptureError(f"the scripted model returns {kind} that depends on run time, which ONNX cannot say")
    return item
