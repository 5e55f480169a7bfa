"""Lists of a scripted program.

A list of known length is not in the graph. Where the length is only known at run time, a list of tensors becomes an
ONNX sequence, and a list of numbers a tensor with one dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.script.contents import NUMBER_DTYPES, known_content
from onnxport.capture.script.items import Item, ScriptDict, ScriptList, Text
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Handler, Reader
from onnxport.capture.script.structures import constant_key, element_kind
from onnxport.errors import CaptureError
from onnxport.graph.ir import ScalarType, SequenceType, TensorType, Value


def list_construct(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [ScriptList(list(args), element_kind(location))]


def unpack(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    packed = args[0]
    if isinstance(packed, ScriptList) and packed.items is None:
        count = location.node.outputsSize()
        return [_at(reader, location, packed, index) for index in range(count)]
    return list(packed.items or () if isinstance(packed, ScriptList) else packed)


# Lists


def length(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container = args[0]
    if isinstance(container, ScriptList) and container.items is None:
        state: Value = container.state
        if state.is_tensor:
            return [reader.size(location, state, 0)]
        (value,) = reader.add(location, "onnxport::sequence_length", [ScalarType(int)], sequence=state)
        return [reader.run_time_number(value)]
    if isinstance(container, Value):
        return [reader.size(location, container, 0)]
    if isinstance(container, ScriptList):
        return [len(container.items or ())]
    if isinstance(container, Text):
        raise CaptureError(f"{location.where}: the length of a string that is only known at run time is not supported")
    return [len(container.state if isinstance(container, ScriptDict) else container)]


def get_item(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, index = args
    if isinstance(container, ScriptDict):
        key = constant_key(location, index)
        if key not in container.state:
            raise CaptureError(f"{location.where}: the dict has no key {key!r}")
        return [container.state[key]]
    if isinstance(container, str):
        return [container[index]]
    if container.items is not None and isinstance(index, int):
        if not -len(container.items) <= index < len(container.items):
            raise CaptureError(
                f"{location.where}: the index {index} is out of range for a list of {len(container.items)}"
            )
        return [container.items[index]]
    return [_at(reader, location, container, index)]


def _at(reader: Reader, location: Location, container: ScriptList, index: Item) -> Item:
    state = as_value(reader, location, container)
    if state.is_tensor:
        element = reader.emit(location, "aten::select", "int", self=state, dim=0, index=index)
        return reader.number_of(location, element, container.kind)
    assert isinstance(state.type, SequenceType)
    return reader.add(location, "onnxport::sequence_at", [state.type.element], sequence=state, index=index)[0]


def as_value(reader: Reader, location: Location, container: ScriptList) -> Value:
    """The list as one value of the graph."""
    if container.items is None:
        value: Value = container.state
        return value
    if container.kind in NUMBER_DTYPES:
        dtype = NUMBER_DTYPES[container.kind]
        if not any(isinstance(item, Value) for item in container.items):
            content = torch.tensor(container.items, dtype=dtype)
            return Value(TensorType(dtype, tuple(content.shape)), data=content)
        elements: Any = [reader.as_tensor(location, item, dtype) for item in container.items]
        stacked: Value = reader.emit(location, "aten::stack", tensors=elements, dim=0)
        return stacked
    if container.kind not in ("Tensor", "torch.Tensor", "Optional[Tensor]") or not container.items:
        raise CaptureError(
            f"{location.where}: a list of {container.kind} whose length is only known at run time; ONNX has them for "
            "tensors and numbers. Keep one list for each part of its elements."
        )
    element = reader.joined(location, [item.type for item in container.items])
    return reader.add(location, "onnxport::sequence", [SequenceType(element)], tensors=list(container.items))[0]


def append(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, item = args
    reader.heap.touch(container)
    if container.items is not None:
        container.items.append(item)
    else:
        container.state = _inserted(reader, location, container, item, None)
    return [container]


def _inserted(reader: Reader, location: Location, container: ScriptList, item: Item, index: Item) -> Value:
    state: Value = container.state
    if state.is_tensor:
        if index is not None:
            raise CaptureError(
                f"{location.where}: insert into a list of numbers that grows at run time; append instead"
            )
        number = reader.as_tensor(location, item, state.dtype)
        one = reader.emit(location, "aten::unsqueeze", self=number, dim=0)
        grown: Value = reader.emit(location, "aten::cat", tensors=[state, one], dim=0)
        return grown
    assert isinstance(state.type, SequenceType)
    element = reader.joined(location, [state.type.element, item.type])
    inputs = {"sequence": state, "tensor": item, "index": index}
    return reader.add(location, "onnxport::sequence_insert", [SequenceType(element)], **inputs)[0]


def insert(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, index, item = args
    reader.heap.touch(container)
    if container.items is not None and isinstance(index, int):
        container.items.insert(index, item)
    else:
        container.state = as_value(reader, location, container)
        container.state = _inserted(reader, location, container, item, index)
    return []


def pop(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, index = args[0], args[1] if len(args) > 1 else -1
    if isinstance(container, ScriptDict):
        reader.heap.touch(container)
        return [container.state.pop(constant_key(location, index))]
    reader.heap.touch(container)
    if container.items is not None and isinstance(index, int):
        return [container.items.pop(index)]
    item = _at(reader, location, container, index)
    _erase(reader, location, container, index)
    return [item]


def _erase(reader: Reader, location: Location, container: ScriptList, index: Item) -> None:
    state = as_value(reader, location, container)
    if state.is_tensor:
        if index != -1:
            raise CaptureError(f"{location.where}: pop of an inner element of a list of numbers that grows at run time")
        container.state = reader.emit(location, "aten::slice", "Tensor", self=state, dim=0, start=0, end=-1, step=1)
    else:
        (container.state,) = reader.add(location, "onnxport::sequence_erase", [state.type], sequence=state, index=index)


def set_item(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, index, item = args
    reader.heap.touch(container)
    if isinstance(container, ScriptDict):
        container.state[constant_key(location, index)] = item
        return []
    if container.items is not None and isinstance(index, int):
        container.items[index] = item
        return [container]
    container.state = as_value(reader, location, container)
    if container.state.is_tensor:
        number = reader.as_tensor(location, item, container.state.dtype)
        inputs = {"self": container.state, "src": number, "dim": 0, "index": index}
        container.state = reader.emit(location, "aten::select_scatter", **inputs)
    else:
        inputs = {"sequence": container.state, "index": index, "tensor": item}
        (container.state,) = reader.add(location, "onnxport::sequence_replace", [container.state.type], **inputs)
    return [container]


def delete(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    pop(reader, location, args)
    return []


def extend(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, other = args
    reader.heap.touch(container)
    container.state = joined(reader, location, container, other)
    return []


def joined(reader: Reader, location: Location, left: ScriptList, right: ScriptList) -> Any:
    if left.items is not None and right.items is not None:
        return [*left.items, *right.items]
    if left.items == [] or right.items == []:
        return right.state if left.items == [] else left.state
    first, second = (as_value(reader, location, container) for container in (left, right))
    if first.is_tensor:
        return reader.emit(location, "aten::cat", tensors=[first, second], dim=0)
    if right.items is None:
        assert isinstance(first.type, SequenceType) and isinstance(second.type, SequenceType)
        element = reader.joined(location, [first.type.element, second.type.element])
        return reader.add(location, "onnxport::sequence_join", [SequenceType(element)], left=first, right=second)[0]
    grown = ScriptList(first, left.kind)
    for item in right.items:
        grown.state = _inserted(reader, location, grown, item, None)
    return grown.state


def copy(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container = args[0]
    if isinstance(container, ScriptDict):
        return [ScriptDict(container.copy())]
    if isinstance(container, str):
        return [ScriptList(list(container), "str")]
    return [ScriptList(container.copy(), container.kind)]


def _tolist(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    """``numbers: List[int] = x.tolist()``: the last dimension stays a tensor, the others become lists."""
    kind = location.node.outputsAt(0).type()
    while kind.kind() == "ListType":
        kind = kind.getElementType()
    if kind.annotation_str not in NUMBER_DTYPES:
        raise CaptureError(f"{location.where}: tolist of {kind.annotation_str} elements is not supported")
    return [_as_list(reader, location, args[0], kind.annotation_str)]


def _as_list(reader: Reader, location: Location, tensor: Value, kind: str) -> Item:
    if not tensor.shape:
        return reader.number_of(location, tensor, kind)
    content = None if reader.has_written else known_content(tensor)
    if content is not None and content.dim() == 1:
        return ScriptList(content.to(NUMBER_DTYPES[kind]).tolist(), kind)
    if len(tensor.shape) == 1:
        return ScriptList(reader.converted(location, tensor, NUMBER_DTYPES[kind], copy=True), kind)
    count = tensor.shape[0]
    if not isinstance(count, int):
        raise CaptureError(
            f"{location.where}: tolist makes a list of lists whose length is only known at run time. Keep the tensor, "
            "or make its first dimension static."
        )
    rows = [reader.emit(location, "aten::select", "int", self=tensor, dim=0, index=index) for index in range(count)]
    inner = "List[" * (len(tensor.shape) - 1) + kind + "]" * (len(tensor.shape) - 1)
    return ScriptList([_as_list(reader, location, row, kind) for row in rows], inner)


HANDLERS: dict[str, Handler] = {
    "prim::tolist": _tolist,
    "prim::ListConstruct": list_construct,
    "prim::ListUnpack": unpack,
    "prim::TupleUnpack": unpack,
    "aten::len": length,
    "aten::__getitem__": get_item,
    "aten::append": append,
    "aten::insert": insert,
    "aten::pop": pop,
    "aten::_set_item": set_item,
    "aten::Delete": delete,
    "aten::extend": extend,
    "aten::copy": copy,
    "aten::list": copy,
    "aten::dict": copy,
}
