"""Tuples, dicts with constant keys, objects and constants of a scripted program. None of them is in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.capture.script.items import Item, ScriptDict, ScriptList, ScriptObject, item_of
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Handler, Reader
from onnxport.errors import CaptureError
from onnxport.graph.ir import Value


def element_kind(location: Location) -> str:
    kind = location.node.outputsAt(0).type()
    return str(kind.getElementType().annotation_str) if kind.kind() == "ListType" else "Any"


def tuple_construct(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [tuple(args)]


def dict_construct(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    keys = [constant_key(location, key) for key in args[::2]]
    return [ScriptDict(dict(zip(keys, args[1::2], strict=True)))]


def tuple_index(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [args[0][args[1]]]


def tuple_slice(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [args[0][location.node.i("beg") : location.node.i("end")]]


def create_object(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [ScriptObject(location.node.outputsAt(0).type().qualified_name())]


def get_attribute(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    owner, name = args[0], location.node.s("name")
    if name not in owner.state:
        if owner.load is None:
            raise CaptureError(f"{location.where}: the attribute {name!r} is read before it is set")
        owner.state[name] = _object(owner.load(name), location.node.output().type())
    return [owner.state[name]]


def _object(content: Item, kind: Any) -> Item:
    """The item of a module's attribute; an instance of a scripted class is a Python object there."""
    if isinstance(content, ScriptObject) or kind.kind() != "ClassType":
        return content

    def load(name: str) -> Item:
        if not hasattr(content, name):
            raise CaptureError(f"{kind.qualified_name()}: the attribute {name!r} of an object is kept in C++")
        return item_of(getattr(content, name), None)

    found = ScriptObject(kind.qualified_name(), load)
    found.serial = 0
    return found


def set_attribute(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    owner, content = args
    reader.heap.touch(owner)
    owner.state[location.node.s("name")] = content
    return []


def keys(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [ScriptList(list(args[0].state), "str")]


def values(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    if not isinstance(args[0], ScriptDict):
        return None
    return [ScriptList(list(args[0].state.values()), element_kind(location))]


def items(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [ScriptList(list(args[0].state.items()), "Tuple")]


def get(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, key, default = (*args, None)[:3]
    return [container.state.get(constant_key(location, key), default)]


def update(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    reader.heap.touch(args[0])
    args[0].state.update(args[1].state)
    return []


def constant_key(location: Location, key: Item) -> Any:
    if isinstance(key, Value):
        raise CaptureError(
            f"{location.where}: the key of a dict is only known at run time; ONNX has no dicts. Use a list."
        )
    return key


def constant(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    output = location.node.output()
    return [location.node if output.type().kind() == "FunctionType" else item_of(output.toIValue(), output.type())]


HANDLERS: dict[str, Handler] = {
    "prim::Constant": constant,
    "prim::TupleConstruct": tuple_construct,
    "prim::DictConstruct": dict_construct,
    "prim::TupleIndex": tuple_index,
    "prim::TupleSlice": tuple_slice,
    "prim::CreateObject": create_object,
    "prim::GetAttr": get_attribute,
    "prim::SetAttr": set_attribute,
    "aten::keys": keys,
    "aten::values": values,
    "aten::items": items,
    "aten::get": get,
    "aten::update": update,
}
