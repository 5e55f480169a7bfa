"""What a loop carries from round to round, as far as it is known before its body was read for the last time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxport.capture.script.control_flow.control import as_constant
from onnxport.capture.script.items import Container, Item, Maybe, ScriptDict, ScriptList, ScriptObject
from onnxport.capture.script.lists import as_value
from onnxport.capture.script.places import Place
from onnxport.capture.script.reader import Reader
from onnxport.graph.ir import SequenceType, TensorType, Type, Value


@dataclass
class Fixed:
    """The same in every round."""

    item: Item


@dataclass
class Leaf:
    """A value that each round gives anew. ``free`` are the dimensions that change from round to round.

    ``varies`` is set if it was the same in every round as long as less was known.
    """

    type: Type
    first: Item
    free: set[int] = field(default_factory=set)
    varies: bool = False


@dataclass
class Parts:
    """A tuple, list, dict or object of which each part is carried on its own."""

    of: Item
    parts: dict[Any, Any]


@dataclass
class Perhaps:
    """A value that is there or not: whether it is there, and what it then is, are carried on their own."""

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
    """What a round changes is, in the next round, what this one gave: known unless it was there before."""
    for entry, result in zip(entries, results, strict=True):
        if isinstance(entry, tuple) and isinstance(result, tuple):
            changed_again(entry, result, begun)
            continue
        containers = isinstance(entry, Container) and isinstance(result, Container) and entry is not result
        if containers and result.serial < begun and entry.changed is not None:
            result.lost = entry.changed


def held_in(item: Item) -> Any:
    return item.state if isinstance(item, Container) else item


def as_item(leaf: Leaf, value: Value) -> Item:
    """A list that became one value stays a list of the program."""
    first = leaf.first
    if isinstance(first, ScriptList):
        return ScriptList(value, first.kind)
    return ScriptList(value, "Tensor") if isinstance(leaf.type, SequenceType) else value


def first_value(reader: Reader, place: Place, leaf: Leaf) -> Value:
    """What the loop begins with."""
    if isinstance(leaf.first, ScriptList):
        return listed(reader, place, leaf.first, leaf)
    return as_constant(leaf.first, place)


def listed(reader: Reader, place: Place, container: ScriptList, leaf: Leaf) -> Value:
    if container.items == [] and isinstance(leaf.type, SequenceType):
        return reader.add(place, "onnxport::sequence", [leaf.type], tensors=[])[0]
    return as_value(reader, place, container)


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


def differing(reader: Reader, place: Place, left: TensorType, right: TensorType) -> set[int]:
    reader.common(place, left, right)
    return {axis for axis, (a, b) in enumerate(zip(left.shape, right.shape, strict=True)) if a != b}


def free_dims(type: Type) -> set[int]:
    tensor = tensor_in(type)
    return set() if tensor is None else {axis for axis, s in enumerate(tensor.shape) if not isinstance(s, int)}


def shown(item: Item) -> str:
    if item is None:
        return "None"
    return "a tensor" if isinstance(item, Value) and item.is_tensor else type(item).__name__
