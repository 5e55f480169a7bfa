"""Results of a branch that are a tensor from outside on one side or both: a write to one is, or is not, a write to it.

Which it is only run time knows, and the condition tells: where a chosen tensor is written, each tensor that it may be
becomes, by an If on the same condition, the new content or stays what it was; and so the other way round. Where several
choices have a tensor in common a write to it is an error, as it is inside of another block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from onnxport.graph.functionalize.aliases import Alias, Aliases, Memory
from onnxport.graph.functionalize.flows import Flows
from onnxport.graph.functionalize.inherited import InheritedAliases
from onnxport.graph.functionalize.views import Emitter, View
from onnxport.graph.ir import Block, Node, Value, values_in

# Views that every tensor of that rank has.
NEVER_FAIL = frozenset(
    f"aten::{name}" for name in ("slice", "transpose", "permute", "t", "numpy_T", "unsqueeze", "detach", "alias")
)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A result of a branch, and by the number of a side the alias outside that it is there."""

    output: Alias
    condition: Value
    sides: dict[int, Alias]

    def aliases(self) -> list[Alias]:
        return [self.output, *self.sides.values()]


class Choices:
    """The chosen tensors of a block."""

    def __init__(self, emitter: Emitter, aliases: Aliases, flows: Flows) -> None:
        self._emitter, self._aliases, self._flows = emitter, aliases, flows
        self._of: dict[Memory, Chosen] = {}

    def of_branch(self, node: Node, sides: Sequence[Side], written: dict[Memory, Alias]) -> list[Chosen]:
        """The results of a branch of which is known what they are on each side; no more than that is shared by them."""
        found = []
        for index, output in enumerate(node.outputs):
            choice = choice_of(node, index, sides, self._aliases, written) if output.is_tensor else None
            if choice is not None:
                self._flows.part(choice.output.memory)
                found.append(choice)
        return found

    def added(self, chosen: Chosen) -> list[tuple[Alias, Alias]]:
        """Follow a choice; the aliases that share their memory from now on, where several choices are entwined."""
        entwined = self._dissolve(chosen)
        if not entwined:
            self._of.update({alias.memory: chosen for alias in chosen.aliases()})
            return []
        pairs = [(other.output, alias) for other in (*entwined, chosen) for alias in other.sides.values()]
        for output, alias in pairs:
            self._flows.add([alias.memory], output.memory)
        return pairs

    def lose(self, memories: Iterable[Memory], writer: Node) -> None:
        """Memories are written in a block inside of this one, where nothing of this is known."""
        for memory in memories:
            chosen = self._of.get(memory)
            for other in [] if chosen is None else [alias.memory for alias in chosen.aliases()]:
                if other is not memory:
                    other.lost = other.lost or writer

    def _dissolve(self, chosen: Chosen) -> list[Chosen]:
        """The choices that a new one has a memory in common with; they are no longer followed, and it is not either."""
        found = {known: None for alias in chosen.aliases() if (known := self._of.get(alias.memory)) is not None}
        for known in found:
            for alias in known.aliases():
                self._of.pop(alias.memory, None)
        return list(found)

    def spread(self, memory: Memory, writer: Node) -> None:
        """What was written to a memory gets to those that it may be."""
        chosen = self._of.get(memory)
        if chosen is None:
            return
        for side, alias in chosen.sides.items():
            source, target = (chosen.output, alias) if chosen.output.memory is memory else (alias, chosen.output)
            if source.memory is memory:
                self._choose(chosen.condition, side, self._aliases.read(source), target, writer)

    def _choose(self, condition: Value, side: int, content: Value, target: Alias, writer: Node) -> None:
        before = self._aliases.read(target)
        blocks = [Block(outputs=[content if number == side else before]) for number in range(2)]
        result = Value(before.type)
        node = writer.like("prim::If", {"condition": condition}, [result])
        node.blocks = blocks
        self._emitter.nodes.append(node)
        self._aliases.write(target, result, writer)
        self._flows.write(target.memory, writer)


@dataclass(frozen=True, eq=False)
class Side:
    """A side of a branch: its aliases, its results as they were captured, and the values that it makes."""

    aliases: InheritedAliases
    results: Sequence[Value]
    made: Collection[Value]


def choice_of(
    node: Node, index: int, sides: Sequence[Side], outer: Aliases, written: dict[Memory, Alias]
) -> Chosen | None:
    """What a result of a branch is on each side; None where it is new on both, or is not to be said outside."""
    output = node.outputs[index]
    found: dict[int, Alias] = {}
    for number, side in enumerate(sides):
        path = _way_outside(side, outer, side.results[index], written)
        if path is None:
            continue
        alias = path[0]
        for step in path[1:]:
            view = _view_outside(step, side.made)
            if view is None:
                return None
            alias = alias.results(view)[step.position]
        if not outer.owns(alias) or alias.content.type != output.type:
            return None
        found[number] = alias
    return Chosen(outer.of(output), node.inputs["condition"], found) if found else None


def _way_outside(side: Side, outer: Aliases, value: Value, written: dict[Memory, Alias]) -> list[Alias] | None:
    """The alias outside that a result looks at, and the steps inside that lead from it to the result."""
    alias = side.aliases.known(value)
    if alias is None:
        return None if value in side.made else [outer.of(value)]
    steps = [alias, *alias.ancestors()]
    entries = {side.aliases.root(memory): root for memory, root in written.items()}
    begin = entries.get(steps[-1]) or side.aliases.outside(steps[-1])
    return None if begin is None else [begin, *reversed(steps[:-1])]


def _view_outside(step: Alias, made: Collection[Value]) -> View | None:
    """The view of a step as a node of its own; None where the block computes its arguments.

    On the other side of the branch the view is taken, too, and must not fail there at any size.
    """
    assert step.view is not None
    node, source = step.view.node, step.view.source
    static = all(isinstance(size, int) for size in node.inputs[source].shape)
    if not static and node.op not in NEVER_FAIL:
        return None
    if any(other in made for name, given in node.inputs.items() if name != source for other in values_in(given)):
        return None
    copy = node.like(node.op, dict(node.inputs), [Value(o.type) for o in node.outputs], overload=node.overload)
    copy.returns_list = node.returns_list
    return View(copy, source)
