"""Tensors that share memory, as a tree: the root owns the memory, below it are its views and views of those.

The content of an alias is the value with its present elements. A write gives one alias a new content and makes the
others stale. A stale alias is updated only when it is read, by the shortest path: a view below the written alias is
replayed from it, an alias above it is rebuilt by writing back through the views between them. So an alias that is
written twice in a row is written back once, and one that is not read again is never written back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from onnxport.errors import ExportError
from onnxport.graph.functionalize.views import Emitter, View, Write, is_disjoint, write_back
from onnxport.graph.ir import Node, Value

STALE = -1


class Memory:
    """The state that all aliases of one tensor share.

    ``written`` is the alias with a content that is not yet written back to those above it; those, its ``above``, are
    valid except for that part. ``version`` counts the writes. ``shares`` are memories that may be the same at run time,
    depending on a condition; once this one is written, their content is unknown (``unknown_since`` that node).
    """

    __slots__ = ("above", "shares", "unknown_since", "version", "writer", "written")

    def __init__(self) -> None:
        self.version = 0
        self.shares: list[Memory] = []
        self.unknown_since: Node | None = None
        self.written: Alias | None = None
        self.above: frozenset[Alias] = frozenset()
        self.writer: Node | None = None

    def check_known(self) -> None:
        """Raise an error if the content is unknown."""
        writer = self.unknown_since
        if writer is not None:
            raise ExportError(
                f"{writer.source or writer.scope or 'the model'}: {writer.op} writes to a tensor that may share memory "
                "with one that is read later, depending on a condition, an iteration or the elements of a list. Write "
                "to a copy made with clone()."
            )

    def set_written(self, alias: Alias) -> None:
        self.above = frozenset(alias.ancestors())
        self.written = alias if self.above else None


class Alias:
    """A tensor on a memory: the whole of it, or result ``position`` of a view of another alias.

    Two equal views of the same part are one alias.
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
        """Note that both may be the same memory."""
        if self.memory is not other.memory:
            self.memory.shares.append(other.memory)
            other.memory.shares.append(self.memory)

    def results(self, view: View) -> list[Alias]:
        """The aliases that are the results of a view of this one."""
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
        """Whether the block knows the memory of the alias, so that writes to it are known after the block."""
        return True

    def content(self, value: Value) -> Value:
        """The value with the present content of a value of the captured graph."""
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
            other.unknown_since = writer
        alias.content = content
        for current in (alias, *untouched):
            current.version = memory.version
        memory.set_written(alias)

    def _settle_above(self, alias: Alias) -> None:
        """Update the aliases above, except for the part that is this one."""
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
        """Take the view again of the present content above; the first time with the captured node itself."""
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
    """Whether writes to the alias do not affect its siblings."""
    return alias.parent is not None and alias.view is not None and is_disjoint(alias.view, alias.parent.content)
