"""Templates of what a loop carries from iteration to iteration; each reading of the body makes them more general."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxport.capture.script.control_flow.control import as_constant
from onnxport.capture.script.items import Container, Item, Maybe, ScriptDict, ScriptList, ScriptObject
from onnxport.capture.script.lists import as_value
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Reader
from onnxport.graph.ir import SequenceType, TensorType, Type, Value


@dataclass
class Fixed:
    """The same in every iteration."""

    item: Item


@dataclass
class Leaf:
    """A value that each iteration computes. ``free`` are the dimensions that change from iteration to iteration.

    ``varies`` is set on a value that earlier readings of the body took for constant.
    """

    type: Type
    first: Item
    free: set[int] = field(default_factory=set)
    varies: bool = False


@dataclass
class Parts:
    """A tuple, list, dict or object; each part is carried as a value of its own."""

    of: Item
    parts: dict[Any, Any]


@dataclass
class Perhaps:
    """An optional value: a flag and the value are carried separately."""

    present: Any
    item: Any


def assembled(template: Parts, parts: list[Item]) -> Item:
    of = template.of
    if isinstance(of, tuple):
        return tuple(parts)
    if isinstance(of, ScriptList):
        return ScriptList(parts, of.kind)
    made: Container = ScriptDict({}) if isinstance(of, ScriptDict) else ScriptObject(of.type_name)
    made.state = dict(zip(template.parts, parts, strict=True))
    return made


def perhaps(present: Item, item: Item) -> Item:
    if isinstance(present, Value):
        return Maybe(present, item)
    return item if present else None


def changed_again(entries: Sequence[Item], results: Sequence[Item], begun: int) -> None:
    """Mark results that the next iteration would change: their content is not known after that."""
    for entry, result in zip(entries, results, strict=True):
        if isinstance(entry, tuple) and isinstance(result, tuple):
            changed_again(entry, result, begun)
            continue
        containers = isinstance(entry, Container) and isinstance(result, Container) and entry is not result
        if containers and result.serial < begun and entry.changed is not None:
            result.unknown_since = entry.changed


def state_of(item: Item) -> Any:
    return item.state if isinstance(item, Container) else item


def as_item(leaf: Leaf, value: Value) -> Item:
    """The item of a carried value: a list of the program that is one value of the graph stays a list."""
    first = leaf.first
    if isinstance(first, ScriptList):
        return ScriptList(value, first.kind)
    return ScriptList(value, "Tensor") if isinstance(leaf.type, SequenceType) else value


def filled(template: Any, value_of: Callable[[Leaf], Value]) -> Item:
    """The item of a template, with a value for each leaf."""
    if isinstance(template, Fixed):
        return template.item
    if isinstance(template, Parts):
        return assembled(template, [filled(part, value_of) for part in template.parts.values()])
    if isinstance(template, Perhaps):
        return perhaps(filled(template.present, value_of), filled(template.item, value_of))
    return as_item(template, value_of(template))


def first_value(reader: Reader, location: Location, leaf: Leaf) -> Value:
    """The initial value that is given to the loop."""
    if isinstance(leaf.first, ScriptList):
        return list_value(reader, location, leaf.first, leaf)
    return as_constant(leaf.first, location)


def list_value(reader: Reader, location: Location, container: ScriptList, leaf: Leaf) -> Value:
    if container.items == [] and isinstance(leaf.type, SequenceType):
        return reader.add(location, "onnxport::sequence", [leaf.type], tensors=[])[0]
    return as_value(reader, location, container)


def items_before(template: Parts) -> list[Item]:
    return [part.first if isinstance(part, Leaf) else part.item for part in template.parts.values()]


def element_types(state: Any) -> Iterator[TensorType]:
    if isinstance(state, Value):
        if isinstance(state.type, SequenceType):
            yield state.type.element
        return
    for item in state:
        if isinstance(item, Value) and isinstance(item.type, TensorType):
            yield item.type


def tensor_in(type: Type) -> TensorType | None:
    return type.element if isinstance(type, SequenceType) else type if isinstance(type, TensorType) else None


def differing(reader: Reader, location: Location, left: TensorType, right: TensorType) -> set[int]:
    reader.common(location, left, right)
    return {axis for axis, (a, b) in enumerate(zip(left.shape, right.shape, strict=True)) if a != b}


def free_dims(type: Type) -> set[int]:
    tensor = tensor_in(type)
    return set() if tensor is None else {axis for axis, s in enumerate(tensor.shape) if not isinstance(s, int)}


def shown(item: Item) -> str:
    if item is None:
        return "None"
    return "a tensor" if isinstance(item, Value) and item.is_tensor else type(item).__name__
