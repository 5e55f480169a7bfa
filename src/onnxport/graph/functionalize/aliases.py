"""Tensors that share memory, as a tree: at its root a tensor of its own, below it the views of it and views of those.

The content of an alias is the value that holds what it shows now. Writing gives one alias a new content and makes the
others stale; what is stale is brought up to date only when it is read, by the shortest way: a view below the written
alias is replayed from it, an alias above it is rebuilt by writing back through the views between them. So an alias that
is written twice in a row is written back once, and one that nobody reads again is never written back at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from onnxport.errors import ExportError
from onnxport.graph.functionalize.views import Emitter, View, Write, is_disjoint, write_back
from onnxport.graph.ir import Node, Value

STALE = -1


class Memory:
    """What all aliases of one tensor have in common.

    ``written`` is the alias whose content is not yet part of the ones above it; those, its ``above``, are right
    everywhere but in the part that they show of it. ``version`` counts the writes.
    ``shares`` are memories that may be the same at run time, depending on a condition; what they hold is not known
    (``lost``, to the node that writes) once this one is written.
    """

    __slots__ = ("above", "lost", "shares", "version", "writer", "written")

    def __init__(self) -> None:
        self.version = 0
        self.shares: list[Memory] = []
        self.lost: Node | None = None
        self.written: Alias | None = None
        self.above: frozenset[Alias] = frozenset()
        self.writer: Node | None = None

    def check_known(self) -> None:
        """Raise an error if what it holds is lost."""
        lost = self.lost
        if lost is not None:
            raise ExportError(
                f"{lost.source or lost.scope or 'the model'}: {lost.op} writes to a tensor that is, or is not, another "
                "one that is read later, depending on a condition, on the round of a loop, or on what lies in a list. "
                "Write to a copy made with clone()."
            )

    def set_written(self, alias: Alias) -> None:
        self.above = frozenset(alias.ancestors())
        self.written = alias if self.above else None


class Alias:
    """One way to look at a memory: the whole of it, or result ``position`` of a view of another alias.

    Two views that show the same part in the same way are one alias.
    """

    __slots__ = ("content", "memory", "parent", "position", "siblings", "version", "view", "views")

    def __init__(self, memory: Memory, content: Value, version: int) -> None:
        self.memory = memory
        self.content = content
        self.version = version
        self.parent: Alias | None = None
        self.view: View | None = None
        self.position = 0
        self.siblings: list[Alias] = [self]
        self.views: dict[Hashable, list[Alias]] = {}

    @staticmethod
    def of(value: Value) -> Alias:
        """The root of a tensor that has its own memory."""
        return Alias(Memory(), value, 0)

    def ancestors(self) -> Iterator[Alias]:
        """The aliases above this one, the nearest first."""
        alias = self.parent
        while alias is not None:
            yield alias
            alias = alias.parent

    def share(self, other: Alias) -> None:
        """Both may be the same memory."""
        if self.memory is not other.memory:
            self.memory.shares.append(other.memory)
            other.memory.shares.append(self.memory)

    def results(self, view: View) -> list[Alias]:
        """The aliases that a view of this one gives."""
        key = view.key()
        if key not in self.views:
            self.views[key] = [Alias(self.memory, output, STALE) for output in view.node.outputs]
            for position, alias in enumerate(self.views[key]):
                alias.parent, alias.view, alias.position = self, view, position
                alias.siblings = self.views[key]
        return self.views[key]


class Aliases:
    """The aliases of a block's values."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._of: dict[Value, Alias] = {}
        self._played: set[View] = set()

    def known(self, value: Value) -> Alias | None:
        """The alias of a value that is a view or has one, or was written."""
        return self._of.get(value)

    def of(self, value: Value) -> Alias:
        if value not in self._of:
            self._of[value] = Alias.of(value)
        return self._of[value]

    def bind(self, value: Value, alias: Alias) -> None:
        self._of[value] = alias

    def owns(self, alias: Alias) -> bool:
        """Whether what is written to the alias in this block is known after it."""
        return True

    def content(self, value: Value) -> Value:
        """The value that holds what a value of the captured graph holds now."""
        alias = self._of.get(value)
        return value if alias is None else self.read(alias)

    def read(self, alias: Alias) -> Value:
        alias.memory.check_known()
        if alias.version != alias.memory.version:
            if alias in alias.memory.above:
                self._rebuild(alias)
            else:
                assert alias.parent is not None, "a root is never stale unless something below it was written"
                self._replay(alias, self.read(alias.parent))
        return alias.content

    def write(self, alias: Alias, content: Value, writer: Node) -> None:
        """Give the alias a new content, written by the node ``writer``."""
        memory = alias.memory
        self._settle_above(alias)
        others = alias.siblings if _is_disjoint(alias) else []
        untouched = [other for other in others if other.version == memory.version]
        memory.version += 1
        memory.writer = writer
        for other in memory.shares:
            other.lost = writer
        alias.content = content
        for current in (alias, *untouched):
            current.version = memory.version
        memory.set_written(alias)

    def _settle_above(self, alias: Alias) -> None:
        """Make the aliases above right everywhere but in the part that shows this one."""
        memory = alias.memory
        if alias is memory.written or alias in memory.above:
            return
        outdated = []
        for ancestor in alias.ancestors():
            outdated.append(ancestor)
            if ancestor is memory.written or ancestor in memory.above:
                break
        for ancestor in reversed(outdated):
            self.read(ancestor)

    def _rebuild(self, alias: Alias) -> None:
        memory = alias.memory
        assert memory.written is not None and memory.writer is not None
        step = memory.written
        while step is not alias:
            parent = step.parent
            assert parent is not None and step.view is not None
            write = Write(self._emitter, memory.writer, step.view, step.position, parent.content, step.content)
            parent.content = write_back(write)
            parent.version = memory.version
            step = parent
        memory.set_written(alias)

    def _replay(self, alias: Alias, source: Value) -> None:
        """Look again at what the alias above holds now; the first time with the captured node itself."""
        view = alias.view
        assert view is not None
        if view in self._played:
            contents = view.replay(self._emitter, source)
        else:
            self._played.add(view)
            view.node.inputs[view.source] = source
            self._emitter.nodes.append(view.node)
            contents = view.node.outputs
        for sibling, content in zip(alias.siblings, contents, strict=True):
            if sibling.version != alias.memory.version:
                sibling.content = content
                sibling.version = alias.memory.version


def _is_disjoint(alias: Alias) -> bool:
    """Whether writing to the alias leaves its siblings as they are."""
    return alias.parent is not None and alias.view is not None and is_disjoint(alias.view, alias.parent.content)
