"""The values of a scripted program while it is read: constants, values of the graph, and containers.

Containers are mutable and may be shared, as in the program. A `Heap` keeps their content from before a branch or a loop
body, so that what the block changes can become a result of the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import torch

from onnxport.errors import CaptureError
from onnxport.graph.ir import TensorType, Value

_SERIALS = itertools.count(1)

# None, numbers, strings, devices and the like as they are; values of the graph; tuples of items; containers.
Item: TypeAlias = Any


class Container:
    """A mutable object of the program. ``state`` is its content at the present node.

    ``serial`` orders containers by creation; those from before the program have 0. ``aliases`` are containers that may
    be the same object, which is only known at run time: once one is changed, the content of the others is unknown
    (``unknown_since``, the location of the change). ``changed`` is where it was changed last.
    """

    __slots__ = ("aliases", "changed", "content", "serial", "unknown_since")

    def __init__(self, state: Any) -> None:
        self.content = state
        self.serial = next(_SERIALS)
        self.aliases: list[Container] = []
        self.unknown_since: Any = None
        self.changed: Any = None

    @property
    def state(self) -> Any:
        if self.unknown_since is not None:
            raise CaptureError(
                f"{self.unknown_since.where}: this changes a list, dict or object that may be the same object as one "
                "that is read later; which one it is depends on a condition or a loop. Change a copy of it."
            )
        return self.content

    @state.setter
    def state(self, state: Any) -> None:
        self.content = state

    def may_be(self, *others: Container) -> None:
        for other in others:
            if other is not self:
                self.aliases.append(other)
                other.aliases.append(self)

    def copy(self) -> Any:
        """A copy of its content."""
        return self.state.copy() if isinstance(self.state, (list, dict)) else self.state


class ScriptList(Container):
    """A list: of items, or, where its length is only known at run time, one value of the graph.

    ``kind`` is the element type as TorchScript writes it: ``Tensor``, ``int``, ``float``, ``bool``, ...
    """

    __slots__ = ("kind",)

    def __init__(self, state: list[Item] | Value, kind: str) -> None:
        super().__init__(state)
        self.kind = kind

    @property
    def items(self) -> list[Item] | None:
        """The elements, if their number is known."""
        return self.state if isinstance(self.state, list) else None


class ScriptDict(Container):
    """A dict with constant keys."""

    __slots__ = ()


class ScriptObject(Container):
    """An instance of a class that the program makes or reads: its attributes by name.

    ``load`` reads an attribute for the first time; ``path`` is set on modules.
    """

    __slots__ = ("load", "path", "script", "type_name")

    def __init__(
        self, type_name: str, load: Callable[[str], Item] | None = None, *, script: Any = None, path: str | None = None
    ) -> None:
        super().__init__({})
        self.type_name = type_name
        self.load = load
        self.script = script
        self.path = path


class Maybe:
    """A value that may be None at run time: ``present`` is a run-time bool, ``item`` the value if it is not None.

    ``there`` is the item in the only branch that has one: its sizes are those of the item wherever that is read.
    """

    __slots__ = ("item", "present", "there")

    def __init__(self, present: Value, item: Item, there: Item = None) -> None:
        self.present = present
        self.item = item
        self.there = there


class Uninitialized:
    """The content of a variable on paths that do not read it."""

    __slots__ = ()


class Text:
    """A string made of run-time values. It can only be printed or raised, which has no effect in a file."""

    __slots__ = ()


class Heap:
    """The containers that were changed since a block was entered, each with its content before."""

    def __init__(self) -> None:
        self._saved: list[tuple[int, dict[Container, Any]]] = []
        self.location: Any = None

    def enter(self) -> int:
        """Begin a block. Containers with a smaller serial than the returned one existed before."""
        begun = next(_SERIALS)
        self._saved.append((begun, {}))
        return begun

    def touch(self, container: Container) -> None:
        """Call before the program changes a container."""
        container.changed = self.location
        for other in container.aliases:
            other.unknown_since = self.location
        self.save(container)

    def save(self, container: Container) -> None:
        """Remember the content of a container. Containers made inside a block do not matter to the blocks around it."""
        for begun, saved in self._saved:
            if container not in saved and container.serial < begun:
                saved[container] = container.copy()

    def leave(self) -> dict[Container, Any]:
        """The new content of each container that the block changed; the containers get their content before back."""
        changed = {}
        for container, before in self._saved.pop()[1].items():
            changed[container] = container.content
            container.content = before
        return changed

    def keep(self) -> None:
        """Leave the block without restoring the containers."""
        self._saved.pop()


def link(items: Iterable[Item], others: Iterable[Item]) -> None:
    """Note that containers at the same position of two structures may be the same object."""
    for item, other in zip(items, others, strict=True):
        if isinstance(item, tuple) and isinstance(other, tuple):
            link(item, other)
        elif isinstance(item, Container) and isinstance(other, Container):
            item.may_be(other)


def leaves(item: Item) -> Iterator[Item]:
    """The parts of a structured item that are neither containers nor tuples."""
    if isinstance(item, tuple):
        for part in item:
            yield from leaves(part)
    elif isinstance(item, ScriptList) and item.items is not None:
        for part in item.items:
            yield from leaves(part)
    elif isinstance(item, (ScriptDict, ScriptObject)):
        for part in item.state.values():
            yield from leaves(part)
    else:
        yield item.state if isinstance(item, ScriptList) else item


def item_of(content: Any, kind: Any) -> Item:
    """A constant of the program as an item."""
    if isinstance(content, torch.Tensor):
        number = int(content) if content.dim() == 0 and content.dtype in (torch.int64, torch.int32) else None
        return Value(TensorType(content.dtype, tuple(content.shape)), data=content.detach(), size=number)
    if isinstance(content, list):
        element = kind.getElementType() if kind is not None and kind.kind() == "ListType" else None
        return ScriptList([item_of(part, element) for part in content], element.annotation_str if element else "Any")
    if isinstance(content, tuple):
        return tuple(item_of(part, None) for part in content)
    if isinstance(content, dict):
        return ScriptDict({key: item_of(part, None) for key, part in content.items()})
    return content
