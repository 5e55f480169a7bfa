"""Lists of a scripted program. Of known length they vanish; those of tensors that grow at run time become sequences of
ONNX, those of numbers tensors with one dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import torch

from onnxport.capture.script.contents import NUMBER_DTYPES
from onnxport.capture.script.items import Item, ScriptDict, ScriptList, Text
from onnxport.capture.script.places import Place
from onnxport.capture.script.reader import Handler, Reader
from onnxport.capture.script.structures import constant_key, element_kind
from onnxport.errors import CaptureError
from onnxport.graph.ir import ScalarType, SequenceType, TensorType, Value


def list_construct(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return [ScriptList(list(given), element_kind(place))]


def unpack(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    packed = given[0]
    if isinstance(packed, ScriptList) and packed.items is None:
        count = place.node.outputsSize()
        return [_at(reader, place, packed, index) for index in range(count)]
    return list(packed.items or () if isinstance(packed, ScriptList) else packed)


# Lists


def length(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container = given[0]
    if isinstance(container, ScriptList) and container.items is None:
        state: Value = container.state
        if state.is_tensor:
            return [reader.size(place, state, 0)]
        (value,) = reader.add(place, "onnxport::sequence_length", [ScalarType(int)], sequence=state)
        return [reader.run_time_number(value)]
    if isinstance(container, Value):
        return [reader.size(place, container, 0)]
    if isinstance(container, ScriptList):
        return [len(container.items or ())]
    if isinstance(container, Text):
        raise CaptureError(f"{place.where}: the length of a text that is only known at run time; ONNX has no texts")
    return [len(container.state if isinstance(container, ScriptDict) else container)]


def get_item(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, index = given
    if isinstance(container, ScriptDict):
        key = constant_key(place, index)
        if key not in container.state:
            raise CaptureError(f"{place.where}: the dict has no key {key!r}")
        return [container.state[key]]
    if isinstance(container, str):
        return [container[index]]
    if container.items is not None and isinstance(index, int):
        if not -len(container.items) <= index < len(container.items):
            raise CaptureError(f"{place.where}: the index {index} is beyond a list of {len(container.items)}")
        return [container.items[index]]
    return [_at(reader, place, container, index)]


def _at(reader: Reader, place: Place, container: ScriptList, index: Item) -> Item:
    state = as_value(reader, place, container)
    if state.is_tensor:
        element = reader.emit(place, "aten::select", "int", self=state, dim=0, index=index)
        return reader.number_of(place, element, container.kind)
    assert isinstance(state.type, SequenceType)
    return reader.add(place, "onnxport::sequence_at", [state.type.element], sequence=state, index=index)[0]


def as_value(reader: Reader, place: Place, container: ScriptList) -> Value:
    """The list as one value of the graph."""
    if container.items is None:
        value: Value = container.state
        return value
    if container.kind in NUMBER_DTYPES:
        dtype = NUMBER_DTYPES[container.kind]
        if not any(isinstance(item, Value) for item in container.items):
            content = torch.tensor(container.items, dtype=dtype)
            return Value(TensorType(dtype, tuple(content.shape)), data=content)
        elements: Any = [reader.as_tensor(place, item, dtype) for item in container.items]
        stacked: Value = reader.emit(place, "aten::stack", tensors=elements, dim=0)
        return stacked
    if container.kind not in ("Tensor", "torch.Tensor", "Optional[Tensor]") or not container.items:
        raise CaptureError(
            f"{place.where}: a list of {container.kind} whose length is only known at run time; ONNX has them for "
            "tensors and numbers. Keep one list for each part of its elements."
        )
    element = reader.joined(place, [item.type for item in container.items])
    return reader.add(place, "onnxport::sequence", [SequenceType(element)], tensors=list(container.items))[0]


def append(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, item = given
    reader.heap.touch(container)
    if container.items is not None:
        container.items.append(item)
    else:
        container.state = _inserted(reader, place, container, item, None)
    return [container]


def _inserted(reader: Reader, place: Place, container: ScriptList, item: Item, index: Item) -> Value:
    state: Value = container.state
    if state.is_tensor:
        if index is not None:
            raise CaptureError(f"{place.where}: insert into a list of numbers that grows at run time; append instead")
        number = reader.as_tensor(place, item, state.dtype)
        one = reader.emit(place, "aten::unsqueeze", self=number, dim=0)
        grown: Value = reader.emit(place, "aten::cat", tensors=[state, one], dim=0)
        return grown
    assert isinstance(state.type, SequenceType)
    element = reader.joined(place, [state.type.element, item.type])
    inputs = {"sequence": state, "tensor": item, "index": index}
    return reader.add(place, "onnxport::sequence_insert", [SequenceType(element)], **inputs)[0]


def insert(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, index, item = given
    reader.heap.touch(container)
    if container.items is not None and isinstance(index, int):
        container.items.insert(index, item)
    else:
        container.state = as_value(reader, place, container)
        container.state = _inserted(reader, place, container, item, index)
    return []


def pop(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, index = given[0], given[1] if len(given) > 1 else -1
    if isinstance(container, ScriptDict):
        reader.heap.touch(container)
        return [container.state.pop(constant_key(place, index))]
    reader.heap.touch(container)
    if container.items is not None and isinstance(index, int):
        return [container.items.pop(index)]
    item = _at(reader, place, container, index)
    _erase(reader, place, container, index)
    return [item]


def _erase(reader: Reader, place: Place, container: ScriptList, index: Item) -> None:
    state = as_value(reader, place, container)
    if state.is_tensor:
        if index != -1:
            raise CaptureError(f"{place.where}: a number is taken from within a list that grows at run time")
        container.state = reader.emit(place, "aten::slice", "Tensor", self=state, dim=0, start=0, end=-1, step=1)
    else:
        (container.state,) = reader.add(place, "onnxport::sequence_erase", [state.type], sequence=state, index=index)


def set_item(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, index, item = given
    reader.heap.touch(container)
    if isinstance(container, ScriptDict):
        container.state[constant_key(place, index)] = item
        return []
    if container.items is not None and isinstance(index, int):
        container.items[index] = item
        return [container]
    container.state = as_value(reader, place, container)
    if container.state.is_tensor:
        number = reader.as_tensor(place, item, container.state.dtype)
        inputs = {"self": container.state, "src": number, "dim": 0, "index": index}
        container.state = reader.emit(place, "aten::select_scatter", **inputs)
    else:
        inputs = {"sequence": container.state, "index": index, "tensor": item}
        (container.state,) = reader.add(place, "onnxport::sequence_replace", [container.state.type], **inputs)
    return [container]


def delete(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    pop(reader, place, given)
    return []


def extend(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, other = given
    reader.heap.touch(container)
    container.state = _joined(reader, place, container, other)
    return []


def _joined(reader: Reader, place: Place, left: ScriptList, right: ScriptList) -> Any:
    if left.items is not None and right.items is not None:
        return [*left.items, *right.items]
    if left.items == [] or right.items == []:
        return right.state if left.items == [] else left.state
    first, second = (as_value(reader, place, container) for container in (left, right))
    if first.is_tensor:
        return reader.emit(place, "aten::cat", tensors=[first, second], dim=0)
    if right.items is None:
        assert isinstance(first.type, SequenceType) and isinstance(second.type, SequenceType)
        element = reader.joined(place, [first.type.element, second.type.element])
        return reader.add(place, "onnxport::sequence_join", [SequenceType(element)], left=first, right=second)[0]
    grown = ScriptList(first, left.kind)
    for item in right.items:
        grown.state = _inserted(reader, place, grown, item, None)
    return grown.state


def _compared(function: Handler, *, same: bool) -> Handler:
    """The handler, with members of enumerations compared by identity."""

    def handler(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
        if isinstance(given[0], Enum):
            return [(given[0] is given[1]) is same]
        return function(reader, place, given)

    return handler


def list_only(function: Handler) -> Handler:
    """A handler for what is an operator on tensors and numbers, too."""

    def handler(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
        if given and isinstance(given[0], (ScriptList, ScriptDict)):
            return function(reader, place, given)
        return None

    return handler


@list_only
def add(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    left, right = given[:2]
    return [ScriptList(_joined(reader, place, left, right), left.kind if left.items != [] else right.kind)]


@list_only
def add_in_place(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    extend(reader, place, given[:2])
    return [given[0]]


@list_only
def multiply(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, count = given
    if container.items is not None and isinstance(count, int):
        return [ScriptList(container.items * count, container.kind)]
    state = as_value(reader, place, container)
    if not state.is_tensor:
        raise CaptureError(f"{place.where}: a list of tensors is repeated as often as run time says")
    return [ScriptList(reader.emit(place, "aten::repeat", self=state, repeats=[count]), container.kind)]


@list_only
def slice_(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container, start, end, step = (*given, None, None, 1)[:4]
    constant = all(bound is None or isinstance(bound, int) for bound in (start, end))
    if container.items is not None and constant:
        return [ScriptList(container.items[start:end:step], container.kind)]
    state = as_value(reader, place, container)
    if state.is_tensor:
        cut = reader.emit(place, "aten::slice", "Tensor", self=state, dim=0, start=start, end=end, step=step)
        return [ScriptList(cut, container.kind)]
    inputs = {"sequence": state, "start": start, "end": end, "step": step}
    return [ScriptList(reader.add(place, "onnxport::sequence_slice", [state.type], **inputs)[0], container.kind)]


def _from_sequence(op: str, *, new_axis: bool) -> Handler:
    """One tensor of a list whose length is only known at run time, along an axis of its elements or a new one."""

    @list_only
    def handler(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
        container, dim = given[0], given[1] if len(given) > 1 else 0
        if container.items is not None:
            return None
        element = container.state.type.element
        axis = dim % (len(element.shape) + new_axis)
        shape = (*element.shape[:axis], reader.points.guess(), *element.shape[axis + (not new_axis) :])
        type = TensorType(element.dtype, shape)
        return reader.add(place, op, [type], tensors=container.state, dim=dim)

    return handler


def _known(
    function: Callable[[list[Item], list[Item]], Any], *, changes: bool = True, compares: bool = False
) -> Handler:
    """A handler for lists whose elements are known, as constants where they are compared."""

    @list_only
    def handler(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
        lists = [item for item in given if isinstance(item, ScriptList)]
        kind = place.node.kind()
        if any(item.items is None for item in lists):
            raise CaptureError(f"{place.where}: {kind} of a list whose length is only known at run time")
        if compares and any(isinstance(part, Value) for item in given for part in getattr(item, "items", (item,))):
            raise CaptureError(f"{place.where}: {kind} of a list with elements that are only known at run time")
        for container in lists[:1] if changes else ():
            reader.heap.touch(container)
        first, *rest = [item.state if isinstance(item, ScriptList) else item for item in given]
        result = function(first, rest)
        count = place.node.outputsSize()
        return [ScriptList(result, lists[0].kind) if isinstance(result, list) else result][:count]

    return handler


def is_same(left: Item, right: Item) -> bool:
    return left is right or (not isinstance(left, Value) and not isinstance(right, Value) and left == right)


def _reverse(items: list[Item], rest: list[Item]) -> None:
    items.reverse()


def _clear(items: list[Item], rest: list[Item]) -> None:
    items.clear()


@list_only
def equal(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    """Whether two lists have the same elements: known now, or a run-time bool where sizes decide."""
    left, right = (item.items for item in given)
    if left is None or right is None:
        raise CaptureError(f"{place.where}: lists are compared whose length is only known at run time")
    if len(left) != len(right):
        return [False]
    unsure = [(a, b) for a, b in zip(left, right, strict=True) if not _surely_same(a, b)]
    if any(not isinstance(a, Value) and not isinstance(b, Value) for a, b in unsure):
        return [False]
    if any(isinstance(item, Value) and item.is_tensor for pair in unsure for item in pair):
        raise CaptureError(f"{place.where}: lists of tensors are compared; compare their elements with torch.equal")
    result: Item = True
    for a, b in unsure:
        same = reader.number_node(place, "aten::eq", bool, "int", a=a, b=b)
        result = same if result is True else reader.number_node(place, "aten::__and__", bool, "bool", a=result, b=same)
    return [result]


def different(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    found = equal(reader, place, given)
    if found is None:
        return None
    return [reader.negated(place, found[0]) if isinstance(found[0], Value) else not found[0]]


def _surely_same(left: Item, right: Item) -> bool:
    """Sizes that agree at every point are the same size."""
    if is_same(left, right):
        return True
    values = isinstance(left, Value) and isinstance(right, Value)
    return values and left.size is not None and left.size == right.size


def _sort(items: list[Item], rest: list[Item]) -> None:
    items.sort(reverse=bool(rest and rest[0]))


def contains(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    container, item = given
    if isinstance(container, ScriptDict):
        return [constant_key(place, item) in container.state]
    if not isinstance(container, ScriptList) or container.items is None:
        return None
    if any(_surely_same(element, item) for element in container.items):
        return [True]
    unsure = [element for element in container.items if isinstance(element, Value) or isinstance(item, Value)]
    if unsure and container.kind not in ("int", "float"):
        raise CaptureError(f"{place.where}: whether a list holds something is only known at run time")
    result: Item = False
    for element in unsure:
        same = reader.number_node(place, "aten::eq", bool, container.kind, a=element, b=item)
        result = same if result is False else reader.number_node(place, "aten::__or__", bool, "bool", a=result, b=same)
    return [result]


def copy(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    container = given[0]
    if isinstance(container, ScriptDict):
        return [ScriptDict(container.copy())]
    if isinstance(container, str):
        return [ScriptList(list(container), "str")]
    return [ScriptList(container.copy(), container.kind)]


HANDLERS: dict[str, Handler] = {
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
    "aten::add": add,
    "aten::add_": add_in_place,
    "aten::mul": multiply,
    "aten::slice": slice_,
    "aten::cat": _from_sequence("onnxport::cat_sequence", new_axis=False),
    "aten::stack": _from_sequence("onnxport::stack_sequence", new_axis=True),
    "aten::reverse": _known(_reverse),
    "aten::clear": _known(_clear),
    "aten::sort": _known(_sort, compares=True),
    "aten::eq": _compared(equal, same=True),
    "aten::ne": _compared(different, same=False),
    "aten::index": _known(lambda items, rest: items.index(rest[0]), changes=False, compares=True),
    "aten::count": _known(lambda items, rest: items.count(rest[0]), changes=False, compares=True),
    "aten::remove": _known(lambda items, rest: items.remove(rest[0]), compares=True),
    "aten::__contains__": contains,
    "aten::copy": copy,
    "aten::list": copy,
    "aten::dict": copy,
}
