"""Capture of scripted models: TorchScript's graph, read at several points of the dynamic axes at once.

In: a scripted model or function, and its arguments. Out: a `Capture`, or the nodes of one call. Imports `axes`,
`model`, `record`, `paths`, `sizes`, `graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.axes.labels import input_labels
from onnxport.capture.model.structure import SequencePlaceholder
from onnxport.capture.record.run import input_shapes
from onnxport.capture.script import builtins, list_operators, lists, numbers, predicates, structures
from onnxport.capture.script.arguments import argument_item, outer
from onnxport.capture.script.builtins import Unresolved
from onnxport.capture.script.control_flow import control, loops, squeezes
from onnxport.capture.script.items import Item, Maybe, ScriptDict, ScriptList, ScriptObject, Text, item_of
from onnxport.capture.script.locations import Frame, Location, Raised
from onnxport.capture.script.reader import Handler, Reader
from onnxport.capture.script.reading_points import Coincidence, ReadingPoints
from onnxport.capture.sizes.guesses import MorePoints, OneSize, Settled
from onnxport.capture.sizes.meta_runs import TooLarge
from onnxport.capture.sizes.points import Points
from onnxport.capture.sizes.size_conditions import SizeCondition
from onnxport.errors import CaptureError
from onnxport.graph.ir import Block, Graph, ScalarType, SequenceType, Source, TensorType, Value

MAX_READINGS = 40

HANDLERS: dict[str, Handler] = {
    **lists.HANDLERS,
    **list_operators.HANDLERS,
    **structures.HANDLERS,
    **builtins.HANDLERS,
    **predicates.HANDLERS,
    **numbers.HANDLERS,
    "prim::If": control.if_else,
    "prim::Loop": loops.loop,
    "aten::squeeze": squeezes.squeeze,
}


# A number in the result is an output of this dtype, whether it is the same at every call or not.
NUMBER_DTYPES: dict[type, torch.dtype] = {int: torch.int64, float: torch.float32, bool: torch.bool}


@dataclass
class Program:
    """A scripted model, its named parameters, and a function that calls another function with the model's arguments.

    ``grids`` has the scale, zero point and dtype of arguments that are quantized, by their index; ``functions`` are the
    paths of modules whose calls become functions.
    """

    model: Any
    parameters: Sequence[tuple[str, torch.Tensor]]
    call: Callable[[Callable[..., Any], Sequence[Any]], Any]
    grids: Mapping[int, tuple[float, int, torch.dtype]]
    functions: Collection[str]
    unranked: bool
    squeezes: frozenset[Source] = frozenset()


@dataclass
class Reading:
    """The captured graph, and the program's result with placeholders for tensors.

    ``points`` are the evaluation points of its sizes, ``conditions`` the comparisons of sizes that it depends on.
    """

    graph: Graph
    result: Any
    points: Sequence[Sizes]
    notes: list[str]
    warnings: list[str]
    conditions: list[SizeCondition]


def read_program(
    program: Program, tensors: Sequence[torch.Tensor], axes: Sequence[Axis], points: list[Sizes]
) -> Reading:
    """Read the model at these points, at which it ran, and at further ones."""
    settled: Settled = {}
    reading_points, inlined = ReadingPoints(points, axes), False
    for _ in range(MAX_READINGS):
        at = reading_points.all()
        found = Points(len(at), dict(settled), [at.index(point) for point in at], reading_points.large)
        found.tell_apart = reading_points.tell_apart
        reader = Reader(found, HANDLERS, program.functions, unranked=program.unranked, squeezes=program.squeezes)
        try:
            reading = _read(program, tensors, axes, at, reader, inlined=inlined)
            if not reading_points.goes_beyond(reader.largest):
                return reading
            settled.clear()
        except MorePoints:
            reading_points.repeat()
        except OneSize as one:
            one.settle(settled)
        except Coincidence:
            settled.clear()
        except Unresolved:
            inlined = True
        except Raised as raised:
            raise CaptureError(f"{raised.location.where}: the model raises an exception here for every input") from None
        except CaptureError as error:
            if not (reading_points.shrink() if isinstance(error, TooLarge) else reading_points.drop()):
                raise
            settled.clear()
    raise CaptureError(
        f"the sizes in this scripted model are still not settled after {MAX_READINGS} readings; "
        "export the module without scripting it, or declare fewer dynamic axes"
    )


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
    location = Location(graph.param_node(), Frame(graph))
    parameters = {id(tensor): _parameter(name, tensor) for name, tensor in program.parameters}
    shapes = input_shapes(tensors, axes, rows)
    inputs = [Value(TensorType(tensor.dtype, shape)) for tensor, shape in zip(tensors, shapes, strict=True)]
    for size in (size for shape in shapes for size in shape):
        reader.points.explain(size)
    given = list(inputs)
    for index, (scale, zero, dtype) in program.grids.items():
        grid = {"scale": scale, "zero_point": zero, "dtype": dtype}
        given[index] = reader.emit(location, "aten::quantize_per_tensor", self=inputs[index], **grid)
    args, keywords = program.call(lambda *positional, **named: (positional, named), given)
    arguments = _arguments(reader, location, compat.scripts.script_parameters(program.model), args, keywords)
    if compat.scripts.is_script_module(program.model):
        arguments.insert(0, module_item(compat.scripts.script_object(program.model), "", parameters))
    result = reader.call(graph, arguments)
    outputs: list[Value] = []
    shown = _placeholders(reader, location, result, outputs)
    captured = Graph(Block(inputs, reader.nodes, outputs), list(parameters.values()), captures=len(rows))
    captured.axes = input_labels(shapes, axes)
    return Reading(captured, shown, rows, reader.notes, reader.warnings, reader.points.conditions)


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
    reader: Reader, location: Location, parameters: Sequence[Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Item]:
    """The arguments of the call in the order of the schema; numbers are read from 0-dim tensors."""
    items = []
    for index, parameter in enumerate(parameters):
        if index < len(args):
            value = args[index]
        elif parameter.name in keywords:
            value = keywords[parameter.name]
        elif parameter.has_default_value():
            value = parameter.default_value
        else:
            raise CaptureError(f"args: the argument {parameter.name!r} of the scripted model is missing")
        items.append(argument_item(reader, location, value, parameter.type))
    return items


def _as_output(reader: Reader, location: Location, state: Value) -> Value:
    """A list as an output: floats in the precision that a tensor of them would have."""
    if not state.is_tensor or state.dtype != torch.float64:
        return state
    return reader.converted(location, state, torch.float32)


def _placeholders(reader: Reader, location: Location, item: Item, outputs: list[Value]) -> Any:
    """The result as Python data: an empty tensor for each tensor, whose value is added to ``outputs``."""
    number = item.type.kind if isinstance(item, Value) and isinstance(item.type, ScalarType) else type(item)
    if number in NUMBER_DTYPES:
        item = reader.as_tensor(location, item, NUMBER_DTYPES[number])
    if isinstance(item, Value):
        outputs.append(item)
        return SequencePlaceholder() if isinstance(item.type, SequenceType) else torch.empty(0, dtype=item.dtype)
    if isinstance(item, ScriptList):
        if item.items is None:
            return _placeholders(reader, location, _as_output(reader, location, item.state), outputs)
        return [_placeholders(reader, location, part, outputs) for part in item.items]
    if isinstance(item, tuple):
        return tuple(_placeholders(reader, location, part, outputs) for part in item)
    if isinstance(item, ScriptDict):
        return {key: _placeholders(reader, location, part, outputs) for key, part in item.state.items()}
    if isinstance(item, Maybe) and isinstance(item.item, Value) and item.item.is_tensor:
        inputs = {"present": item.present, "tensor": item.item}
        there = item.there if isinstance(item.there, Value) else item.item
        outputs += reader.add(location, "onnxport::optional", [there.tensor_type], **inputs)
        return torch.empty(0, dtype=item.item.dtype)
    if isinstance(item, (ScriptObject, Maybe, Text)):
        kind = {ScriptObject: "an object", Maybe: "an optional value that is not a tensor", Text: "a string"}[
            type(item)
        ]
        raise CaptureError(
            f"the scripted model returns {kind} that is only known at run time; ONNX has no such outputs"
        )
    return item
