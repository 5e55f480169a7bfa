"""Aliases inside a branch or a loop body: tensors from outside that the block writes to become inputs of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnxport.graph.functionalize.aliases import STALE, Alias, Aliases, Memory
from onnxport.graph.functionalize.views import Emitter, source_name
from onnxport.graph.interpret import writes
from onnxport.graph.ir import Block, Node, Value, values_in


def written_outside(blocks: Sequence[Block]) -> list[Value]:
    """The outside values that the blocks write to, each memory once."""
    found: dict[Value, None] = {}
    for block in blocks:
        bases: dict[Value, Value] = {}
        _follow(block, bases, found)
        inner = {value for nested in _blocks(block) for value in nested.inputs}
        inner |= {output for node in block.all_nodes() for output in node.outputs}
        for value in [value for value in found if value in inner]:
            del found[value]
    return list(found)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for node in block.all_nodes():
        yield from node.blocks


def _follow(block: Block, bases: dict[Value, Value], found: dict[Value, None]) -> None:
    for node in block.nodes:
        source = source_name(node)
        viewed = node.inputs.get(source) if source is not None else None
        if isinstance(viewed, Value):
            bases.update(dict.fromkeys(node.outputs, bases.get(viewed, viewed)))
        if writes(node):
            targets = [bases.get(value, value) for value in _targets(node)]
            found.update(dict.fromkeys(targets))
            if targets:
                bases.update(dict.fromkeys(node.outputs, targets[0]))
        for inner in node.blocks:
            _follow(inner, bases, found)


def _targets(node: Node) -> Iterator[Value]:
    schema = node.schema
    for parameter in schema.written() if schema is not None else ():
        yield from values_in(node.inputs.get(parameter.name))


class InheritedAliases(Aliases):
    """The aliases of an inner block. ``entries`` has the content of each written memory at its entry.

    An outside alias with a memory that the block does not write to gets an alias of its own in the block: views that
    are made of it here are not known outside, nor in the other branch.
    """

    def __init__(self, emitter: Emitter, outer: Aliases, entries: dict[Memory, Value]) -> None:
        super().__init__(emitter)
        self._outer = outer
        self._roots = {memory: Alias.of(value) for memory, value in entries.items()}
        self._own: dict[Alias, Alias] = {}
        self._outside: dict[Alias, Alias] = {}

    def of(self, value: Value) -> Alias:
        found = self._of.get(value)
        if found is None:
            found = self._inherited(value)
            self._of[value] = found
        return found

    def content(self, value: Value) -> Value:
        outer = self._outer.known(value)
        if value not in self._of and outer is not None:
            if outer.memory not in self._roots:
                return self._outer.content(value)
            return self.read(self.of(value))
        return super().content(value)

    def known(self, value: Value) -> Alias | None:
        if value in self._of or self._outer.known(value) is not None:
            return self.of(value)
        return None

    def read(self, alias: Alias) -> Value:
        outside = self._outside.get(alias)
        if outside is None:
            return super().read(alias)
        alias.content, alias.version = self._outer.read(outside), alias.memory.version
        return alias.content

    def root(self, memory: Memory) -> Alias:
        return self._roots[memory]

    def owns(self, alias: Alias) -> bool:
        return not any(step in self._outside for step in (alias, *alias.ancestors()))

    def outside(self, alias: Alias) -> Alias | None:
        """The outside alias of one in the block, if the block does not write to its memory."""
        return self._outside.get(alias)

    def _inherited(self, value: Value) -> Alias:
        outer = self._outer.known(value)
        if outer is None:
            return Alias.of(value)
        if outer.memory in self._roots:
            return self._same(outer)
        if outer not in self._own:
            own = self._own[outer] = Alias(outer.memory, outer.content, STALE)
            self._outside[own] = outer
        return self._own[outer]

    def _same(self, outer: Alias) -> Alias:
        """The same view of the memory as it is in the block."""
        if outer.parent is None or outer.view is None:
            return self._roots[outer.memory]
        self._played.add(outer.view)  # its captured node belongs outside
        return self._same(outer.parent).results(outer.view)[outer.position]
