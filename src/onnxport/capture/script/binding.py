"""Arguments of an operator by the names of its schema, with TorchScript's codes for dtypes as dtypes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from onnxport import compat
from onnxport.capture.script.items import Item, ScriptDict, ScriptList, ScriptObject
from onnxport.capture.script.locations import Location
from onnxport.errors import CaptureError
from onnxport.graph.ir import Argument, Node, Schema, UnrankedType, Value, schema_of

LARGEST = 2**20


def bound(schema: Schema | None, args: Sequence[Argument]) -> dict[str, Argument]:
    """The arguments by the names of the schema; known numbers as numbers, codes of dtypes as dtypes."""
    if schema is None:
        return {str(index): argument for index, argument in enumerate(args)}
    return {
        parameter.name: argument if _is_tensors(parameter.type) else typed(parameter.type, argument)
        for parameter, argument in zip(schema.parameters, args, strict=False)
    }


@functools.cache
def _is_tensors(kind: str) -> bool:
    return "Tensor" in kind and "ScalarType" not in kind and "MemoryFormat" not in kind


def typed(kind: str, argument: Argument) -> Argument:
    if "ScalarType" in kind and isinstance(argument, int):
        return compat.DTYPE_CODES[argument]
    if "MemoryFormat" in kind and isinstance(argument, int):
        return compat.MEMORY_FORMATS[argument]
    if "Tensor" in kind:
        return argument
    if isinstance(argument, list):
        return [typed(kind, element) for element in argument]
    if isinstance(argument, Value) and isinstance(argument.size, int):
        return argument.size
    if isinstance(argument, Value) and argument.data is not None and argument.data.numel() == 1:
        return argument.data.item()
    return argument


@functools.cache
def overload_in(schema: str) -> str:
    """The name of the overload in a schema's text."""
    return schema.partition("(")[0].partition(".")[2]


def check_flags(location: Location, node: Node) -> None:
    """Refuse flags of tensor operators that are only known at run time."""
    schema = schema_of(node.op, node.overload)
    if schema is None or not any(value.is_tensor for value in node.values()):
        return
    for parameter in schema.parameters:
        argument = node.inputs.get(parameter.name)
        if parameter.type in ("bool", "bool?") and isinstance(argument, Value):
            raise CaptureError(
                f"{location.where}: {parameter.name!r} of {node.op} is only known at run time; ONNX needs a constant. "
                f"Write if ...: {node.op.partition('::')[2]}(..., {parameter.name}=True) else: (..., False)."
            )


def largest(argument: Argument) -> int:
    """The largest integer in an argument; integers above ``LARGEST`` mean "no bound"."""
    if isinstance(argument, list):
        return max(map(largest, argument), default=0)
    return abs(argument) if type(argument) is int and abs(argument) <= LARGEST else 0


def plain(item: Item, location: Location) -> Argument:
    """An item as an argument of an operator: lists and tuples of values and constants."""
    if isinstance(item, ScriptList):
        return item.state if item.items is None else [plain(element, location) for element in item.items]
    if isinstance(item, tuple):
        return [plain(element, location) for element in item]
    if isinstance(item, ScriptObject) and compat.scripts.is_native(item.script):
        return item.script  # the operator's own, such as packed weights
    if isinstance(item, (ScriptDict, ScriptObject)):
        raise CaptureError(
            f"{location.where}: {location.node.kind()} gets a dict or an object as argument; ONNX has neither"
        )
    if isinstance(item, Value) and isinstance(item.type, UnrankedType):
        raise used_unranked(location)
    return item


def used_unranked(location: Location) -> CaptureError:
    return CaptureError(
        f"{location.where}: a tensor has one number of dimensions in one branch of a condition and another in the "
        "other, and is used behind it; give it the same number in both, with unsqueeze or reshape"
    )
