"""Operators on lists of a scripted program: concatenation, slices, comparisons, methods of lists of known length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from onnxport.capture.script.items import Item, ScriptDict, ScriptList
from onnxport.capture.script.lists import as_value, extend, joined
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Handler, Reader
from onnxport.capture.script.structures import constant_key
from onnxport.errors import CaptureError
from onnxport.graph.ir import TensorType, Value


def _compared(function: Handler, *, same: bool) -> Handler:
    """The handler, with members of enumerations compared by identity."""

    def handler(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
        if isinstance(args[0], Enum):
            return [(args[0] is args[1]) is same]
        return function(reader, location, args)

    return handler


def list_only(function: Handler) -> Handler:
    """A handler of an operator on lists that also exists on tensors and numbers; those are left to others."""

    def handler(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
        if args and isinstance(args[0], (ScriptList, ScriptDict)):
            return function(reader, location, args)
        return None

    return handler


@list_only
def add(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    left, right = args[:2]
    return [ScriptList(joined(reader, location, left, right), left.kind if left.items != [] else right.kind)]


@list_only
def add_in_place(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    extend(reader, location, args[:2])
    return [args[0]]


@list_only
def multiply(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, count = args
    if container.items is not None and isinstance(count, int):
        return [ScriptList(container.items * count, container.kind)]
    state = as_value(reader, location, container)
    if not state.is_tensor:
        raise CaptureError(
            f"{location.where}: a list of tensors is repeated by a number that is only known at run time"
        )
    return [ScriptList(reader.emit(location, "aten::repeat", self=state, repeats=[count]), container.kind)]


@list_only
def slice_(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    container, start, end, step = (*args, None, None, 1)[:4]
    constant = all(bound is None or isinstance(bound, int) for bound in (start, end))
    if container.items is not None and constant:
        return [ScriptList(container.items[start:end:step], container.kind)]
    state = as_value(reader, location, container)
    if state.is_tensor:
        cut = reader.emit(location, "aten::slice", "Tensor", self=state, dim=0, start=start, end=end, step=step)
        return [ScriptList(cut, container.kind)]
    inputs = {"sequence": state, "start": start, "end": end, "step": step}
    return [ScriptList(reader.add(location, "onnxport::sequence_slice", [state.type], **inputs)[0], container.kind)]


def _from_sequence(op: str, *, new_axis: bool) -> Handler:
    """One tensor from a list whose length is only known at run time, along an axis of its elements or a new one."""

    @list_only
    def handler(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
        container, dim = args[0], args[1] if len(args) > 1 else 0
        if container.items is not None:
            return None
        element = container.state.type.element
        axis = dim % (len(element.shape) + new_axis)
        shape = (*element.shape[:axis], reader.points.guess(), *element.shape[axis + (not new_axis) :])
        type = TensorType(element.dtype, shape)
        return reader.add(location, op, [type], tensors=container.state, dim=dim)

    return handler


def _known(
    function: Callable[[list[Item], list[Item]], Any], *, changes: bool = True, compares: bool = False
) -> Handler:
    """A handler for lists whose elements are known, as constants where they are compared."""

    @list_only
    def handler(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
        lists = [item for item in args if isinstance(item, ScriptList)]
        kind = location.node.kind()
        if any(item.items is None for item in lists):
            raise CaptureError(f"{location.where}: {kind} of a list whose length is only known at run time")
        if compares and any(isinstance(part, Value) for item in args for part in getattr(item, "items", (item,))):
            raise CaptureError(f"{location.where}: {kind} of a list with elements that are only known at run time")
        for container in lists[:1] if changes else ():
            reader.heap.touch(container)
        first, *rest = [item.state if isinstance(item, ScriptList) else item for item in args]
        result = function(first, rest)
        count = location.node.outputsSize()
        return [ScriptList(result, lists[0].kind) if isinstance(result, list) else result][:count]

    return handler


def is_same(left: Item, right: Item) -> bool:
    return left is right or (not isinstance(left, Value) and not isinstance(right, Value) and left == right)


def _reverse(items: list[Item], rest: list[Item]) -> None:
    items.reverse()


def _clear(items: list[Item], rest: list[Item]) -> None:
    items.clear()


@list_only
def equal(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    """Whether two lists have the same elements: known now, or a run-time bool where sizes decide."""
    left, right = (item.items for item in args)
    if left is None or right is None:
        raise CaptureError(f"{location.where}: comparison of lists whose length is only known at run time")
    if len(left) != len(right):
        return [False]
    unsure = [(a, b) for a, b in zip(left, right, strict=True) if not _surely_same(a, b)]
    if any(not isinstance(a, Value) and not isinstance(b, Value) for a, b in unsure):
        return [False]
    if any(isinstance(item, Value) and item.is_tensor for pair in unsure for item in pair):
        raise CaptureError(f"{location.where}: comparison of lists of tensors; compare their elements with torch.equal")
    result: Item = True
    for a, b in unsure:
        same = reader.number_node(location, "aten::eq", bool, "int", a=a, b=b)
        result = (
            same if result is True else reader.number_node(location, "aten::__and__", bool, "bool", a=result, b=same)
        )
    return [result]


def different(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    found = equal(reader, location, args)
    if found is None:
        return None
    return [reader.negated(location, found[0]) if isinstance(found[0], Value) else not found[0]]


def _surely_same(left: Item, right: Item) -> bool:
    """Sizes that agree at every point are the same size."""
    if is_same(left, right):
        return True
    values = isinstance(left, Value) and isinstance(right, Value)
    return values and left.size is not None and left.size == right.size


def _sort(items: list[Item], rest: list[Item]) -> None:
    items.sort(reverse=bool(rest and rest[0]))


def contains(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    container, item = args
    if isinstance(container, ScriptDict):
        return [constant_key(location, item) in container.state]
    if not isinstance(container, ScriptList) or container.items is None:
        return None
    if any(_surely_same(element, item) for element in container.items):
        return [True]
    unsure = [element for element in container.items if isinstance(element, Value) or isinstance(item, Value)]
    if unsure and container.kind not in ("int", "float"):
        raise CaptureError(f"{location.where}: `in` on a list of {container.kind} that is only known at run time")
    result: Item = False
    for element in unsure:
        same = reader.number_node(location, "aten::eq", bool, container.kind, a=element, b=item)
        result = (
            same if result is False else reader.number_node(location, "aten::__or__", bool, "bool", a=result, b=same)
        )
    return [result]


HANDLERS: dict[str, Handler] = {
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
}
