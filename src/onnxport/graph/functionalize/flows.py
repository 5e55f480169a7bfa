"""Tensors that lie in lists of unknown length, or come out of branches and loops: which may be the same memory.

A list of ONNX holds copies. A write to a tensor that may lie in one, or that may have been taken from one, makes the
others unknown (`Memory.lost`); reading one of those afterwards is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnxport.graph.functionalize.aliases import Memory
from onnxport.graph.ir import Node, ScalarType, SequenceType, Value

# Their results hold new tensors, or none.
COPIES = frozenset({"onnxport::cat_sequence", "onnxport::stack_sequence", "onnxport::sequence_length"})


def holds_tensors(node: Node) -> bool:
    """Whether tensors get into a list or out of one by this node."""
    if node.op in COPIES or not node.op.startswith("onnxport::"):
        return False
    return any(isinstance(value.type, SequenceType) for value in (*node.values(), *node.outputs))


def has_memory(value: Value) -> bool:
    return not isinstance(value.type, ScalarType)


class Flows:
    """From which memory to which a tensor may get. ``back`` are ways that lead into the next round of a loop."""

    def __init__(self) -> None:
        self._onward: dict[Memory, dict[Memory, None]] = {}
        self._back: dict[Memory, dict[Memory, None]] = {}
        self._origins: dict[Memory, dict[Memory, None]] = {}
        self._whole: dict[Memory, Memory] = {}
        self.writes: list[tuple[Memory, Node]] = []

    def same(self, inner: Memory, outer: Memory) -> None:
        """The memory that a block writes to is this one outside."""
        self._whole[inner] = self._canonical(outer)

    def add(self, sources: Iterable[Memory], target: Memory, *, back: bool = False) -> None:
        target = self._canonical(target)
        for source in map(self._canonical, sources):
            if source is not target:
                (self._back if back else self._onward).setdefault(source, {})[target] = None
                self._origins.setdefault(target, {})[source] = None

    def part(self, target: Memory) -> None:
        """It is known otherwise what gets into a memory."""
        for source in self._origins.pop(target, {}):
            self._onward.get(source, {}).pop(target, None)

    def write(self, memory: Memory, writer: Node) -> None:
        """Make unknown what may be the same as the written memory."""
        self.writes.append((memory, writer))
        self._lose(memory, writer, _reached([self._canonical(memory)], self._onward))
        self.write_again(memory, writer)

    def write_again(self, memory: Memory, writer: Node, outside: Iterable[Memory] = ()) -> None:
        """The same for a later round of a loop: what it makes anew is new, what it was given or is outside is not."""
        origins = _reached([self._canonical(memory)], self._origins)
        if self._canonical(memory) not in {self._canonical(other) for other in outside}:
            del origins[self._canonical(memory)]
        self._lose(memory, writer, _reached(origins, self._onward, self._back))

    def _lose(self, memory: Memory, writer: Node, found: Iterable[Memory]) -> None:
        lost = {other for other in found if other is not self._canonical(memory)}
        for other in lost:
            other.lost = other.lost or writer
        for inner, outer in self._whole.items():
            if outer in lost:
                inner.lost = inner.lost or writer

    def _canonical(self, memory: Memory) -> Memory:
        return self._whole.get(memory, memory)


def _reached(begin: Iterable[Memory], *ways: dict[Memory, dict[Memory, None]]) -> dict[Memory, None]:
    found = dict.fromkeys(begin)
    waiting = list(found)
    while waiting:
        memory = waiting.pop()
        for way in ways:
            for following in way.get(memory, ()):
                if following not in found:
                    found[following] = None
                    waiting.append(following)
    return found


def read_outside(node: Node) -> Iterator[Value]:
    """The tensors and lists that the blocks of a node use and do not make."""
    made: set[Value] = set()
    used: dict[Value, None] = {}
    for block in node.blocks:
        made.update(block.inputs)
        used.update(dict.fromkeys(block.outputs))
        for inner in block.all_nodes():
            made.update(inner.outputs)
            used.update(dict.fromkeys(inner.values()))
            for nested in inner.blocks:
                made.update(nested.inputs)
                used.update(dict.fromkeys(nested.outputs))
    return (value for value in used if value not in made and has_memory(value))
