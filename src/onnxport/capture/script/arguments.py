"""Arguments of a scripted program: numbers, lists, tuples and dicts as its schema types them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.capture.script.items import Item, ScriptDict, ScriptList, item_of
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Reader
from onnxport.graph.ir import ScalarType, Value

NUMBERS = {"IntType": "int", "FloatType": "float", "BoolType": "bool"}


def argument_item(reader: Reader, location: Location, value: Any, kind: Any) -> Item:
    """An argument as the program takes it: a tensor becomes a number where the schema asks for one, and vice versa."""
    name = kind.kind()
    if name == "OptionalType" and value is not None:
        return argument_item(reader, location, value, kind.getElementType())
    if isinstance(value, Value):
        if value.is_tensor and name in NUMBERS:
            return reader.number_of(location, value, NUMBERS[name])
        if isinstance(value.type, ScalarType) and name == "TensorType":
            return reader.as_tensor(location, value, reader.number_dtype(value))
        return value
    if name == "TupleType" and isinstance(value, (list, tuple)):
        return tuple(argument_item(reader, location, v, k) for v, k in zip(value, kind.elements(), strict=True))
    if name == "ListType" and isinstance(value, (list, tuple)):
        element = kind.getElementType()
        return outer(ScriptList([argument_item(reader, location, v, element) for v in value], element.annotation_str))
    if name == "DictType" and isinstance(value, Mapping):
        element = kind.getValueType()
        return outer(ScriptDict({key: argument_item(reader, location, v, element) for key, v in value.items()}))
    return item_of(value, None)


def outer(item: Item) -> Item:
    """Mark containers that existed before the program began."""
    if isinstance(item, (ScriptList, ScriptDict)):
        item.serial = 0
        for part in item.state if isinstance(item.state, list) else item.state.values():
            outer(part)
    return item
