"""Tensors in lists of unknown length, and results of branches and loops: which may share memory.

ONNX sequences have copies as elements. A write to a tensor that may be an element, or that may have been taken from a
list, makes the others unknown (`Memory.unknown_since`); reading one of those afterwards is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnxport.graph.functionalize.aliases import Memory
from onnxport.graph.ir import Node, ScalarType, SequenceType, Value

# Operators on lists with results that are new tensors, or not tensors.
COPIES = frozenset({"onnxport::cat_sequence", "onnxport::stack_sequence", "onnxport::sequence_length"})


def holds_tensors(node: Node) -> bool:
    """Whether the node adds tensors to a list or takes them from one."""
    if node.op in COPIES or not node.op.startswith("onnxport::"):
        return False
    return any(isinstance(value.type, SequenceType) for value in (*node.values(), *node.outputs))


def has_memory(value: Value) -> bool:
    return not isinstance(value.type, ScalarType)


class Flows:
    """The memories that a tensor may get from and to. ``back`` marks edges to the next iteration of a loop."""

    def __init__(self) -> None:
        self._onward: dict[Memory, dict[Memory, None]] = {}
        self._back: dict[Memory, dict[Memory, None]] = {}
        self._origins: dict[Memory, dict[Memory, None]] = {}
        self._whole: dict[Memory, Memory] = {}
        self.writes: list[tuple[Memory, Node]] = []

    def same(self, inner: Memory, outer: Memory) -> None:
        """Note the outside memory for one inside a block."""
        self._whole[inner] = self._canonical(outer)

    def add(self, sources: Iterable[Memory], target: Memory, *, back: bool = False) -> None:
        target = self._canonical(target)
        for source in map(self._canonical, sources):
            if source is not target:
                (self._back if back else self._onward).setdefault(source, {})[target] = None
                self._origins.setdefault(target, {})[source] = None

    def part(self, target: Memory) -> None:
        """Drop the edges to a memory; its content is tracked elsewhere."""
        for source in self._origins.pop(target, {}):
            self._onward.get(source, {}).pop(target, None)

    def write(self, memory: Memory, writer: Node) -> None:
        """Mark the memories as unknown that may be the same as the written one."""
        self.writes.append((memory, writer))
        self._lose(memory, writer, _reached([self._canonical(memory)], self._onward))
        self.write_again(memory, writer)

    def write_again(self, memory: Memory, writer: Node, outside: Iterable[Memory] = ()) -> None:
        """The same for later iterations: tensors made in the body are new, those carried or from outside are not."""
        origins = _reached([self._canonical(memory)], self._origins)
        if self._canonical(memory) not in {self._canonical(other) for other in outside}:
            del origins[self._canonical(memory)]
        self._lose(memory, writer, _reached(origins, self._onward, self._back))

    def _lose(self, memory: Memory, writer: Node, found: Iterable[Memory]) -> None:
        unknown = {other for other in found if other is not self._canonical(memory)}
        for other in unknown:
            other.unknown_since = other.unknown_since or writer
        for inner, outer in self._whole.items():
            if outer in unknown:
                inner.unknown_since = inner.unknown_since or writer

    def _canonical(self, memory: Memory) -> Memory:
        return self._whole.get(memory, memory)


def _reached(begin: Iterable[Memory], *edges: dict[Memory, dict[Memory, None]]) -> dict[Memory, None]:
    found = dict.fromkeys(begin)
    waiting = list(found)
    while waiting:
        memory = waiting.pop()
        for edge in edges:
            for following in edge.get(memory, ()):
                if following not in found:
                    found[following] = None
                    waiting.append(following)
    return found


def read_outside(node: Node) -> Iterator[Value]:
    """The tensors and lists that the blocks of a node read from outside."""
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
