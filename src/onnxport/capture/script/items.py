"""What a value of a scripted program is while the program is read: a constant, a value of the graph, or a container.

Containers are mutable and may be shared, as in the program. A `Heap` keeps what each held before a branch or a loop
body was read, so that what the block changes can become a result of the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from onnxport.errors import CaptureError
from onnxport.graph.ir import Value

_SERIALS = itertools.count(1)

# None, numbers, strings, devices and the like as they are; values of the graph; tuples of items; containers.
Item: TypeAlias = Any


class Container:
    """A mutable object of the program. ``state`` is what it holds at the present node.

    ``serial`` tells whether it was made before or after another; 0 is for what was there before the program began.
    ``maybe`` are containers that are the same object or not, depending on run time; once one is changed, what the
    others hold is not known (``lost``, to the place of the change). ``changed`` is where it was changed last.
    """

    __slots__ = ("changed", "held", "lost", "maybe", "serial")

    def __init__(self, state: Any) -> None:
        self.held = state
        self.serial = next(_SERIALS)
        self.maybe: list[Container] = []
        self.lost: Any = None
        self.changed: Any = None

    @property
    def state(self) -> Any:
        if self.lost is not None:
            raise CaptureError(
                f"{self.lost.where}: a list, dict or object is changed here that is, or is not, another one which is "
                "read later, depending on a condition or on the round of a loop. Change a copy of it."
            )
        return self.held

    @state.setter
    def state(self, state: Any) -> None:
        self.held = state

    def may_be(self, *others: Container) -> None:
        for other in others:
            if other is not self:
                self.maybe.append(other)
                other.maybe.append(self)

    def copy(self) -> Any:
        """What it holds now, for later."""
        return self.state.copy() if isinstance(self.state, (list, dict)) else self.state


class ScriptList(Container):
    """A list: of items, or, where its length is only known at run time, one value of the graph.

    ``kind`` is the type of its elements as the program says it: ``Tensor``, ``int``, ``float``, ``bool``, ...
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

    ``load`` reads an attribute that was not asked for before; ``path`` is set on modules.
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
    """An optional value that is there or not at run time: ``present`` is a run-time bool, ``item`` what it then is."""

    __slots__ = ("item", "present")

    def __init__(self, present: Value, item: Item) -> None:
        self.present = present
        self.item = item


class Uninitialized:
    """What a variable holds on a way on which nobody reads it."""

    __slots__ = ()


class Text:
    """A string that was put together from run-time values: it may be printed or raised, which nobody sees."""

    __slots__ = ()


class Heap:
    """The containers that were changed since a block was entered, each with what it held before."""

    def __init__(self) -> None:
        self._saved: list[tuple[int, dict[Container, Any]]] = []
        self.place: Any = None

    def enter(self) -> int:
        """Begin a block. Containers with a smaller serial than the one returned were there before."""
        begun = next(_SERIALS)
        self._saved.append((begun, {}))
        return begun

    def touch(self, container: Container) -> None:
        """Call before the program changes a container."""
        container.changed = self.place
        for other in container.maybe:
            other.lost = self.place
        self.save(container)

    def save(self, container: Container) -> None:
        """Remember what a container holds. What a block made itself is nothing to those around it."""
        for begun, saved in self._saved:
            if container not in saved and container.serial < begun:
                saved[container] = container.copy()

    def leave(self) -> dict[Container, Any]:
        """What the block made of each container that it changed; they hold what they held before again."""
        changed = {}
        for container, before in self._saved.pop()[1].items():
            changed[container] = container.held
            container.held = before
        return changed

    def keep(self) -> None:
        """Leave the block, and leave the containers as they are."""
        self._saved.pop()


def link(items: Iterable[Item], others: Iterable[Item]) -> None:
    """Containers in the same places of two structures may be the same."""
    for item, other in zip(items, others, strict=True):
        if isinstance(item, tuple) and isinstance(other, tuple):
            link(item, other)
        elif isinstance(item, Container) and isinstance(other, Container):
            item.may_be(other)


def leaves(item: Item) -> Iterator[Item]:
    """The parts of a structured item that are no containers or tuples."""
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
