"""Results of an If that are a tensor from outside in one or both of its branches.

A write to such a result writes to that tensor if the condition chose it. So after the write, an If on the same
condition gives each tensor that it may be either the new content or the old one; and the other way round for a write to
the tensor. If several choices have a tensor in common, a write to it is an error, as it is inside another block.
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
    """A result of an If, and the outside alias that it is in each branch, by the branch's index."""

    output: Alias
    condition: Value
    branches: dict[int, Alias]

    def aliases(self) -> list[Alias]:
        return [self.output, *self.branches.values()]

    def always(self) -> Alias | None:
        """The alias that the result is in both branches; None if it depends on the condition."""
        found = set(self.branches.values())
        return found.pop() if len(self.branches) == 2 and len(found) == 1 else None


class Choices:
    """The chosen tensors of a block."""

    def __init__(self, emitter: Emitter, aliases: Aliases, flows: Flows) -> None:
        self._emitter, self._aliases, self._flows = emitter, aliases, flows
        self._of: dict[Memory, Chosen] = {}

    def of_branch(self, node: Node, branches: Sequence[Branch], written: dict[Memory, Alias]) -> list[Chosen]:
        """The results that are a known alias in each branch; they share memory with no others.

        One that is the same tensor in both, as where both write to it, is that tensor behind the If, too.
        """
        found = []
        for index, output in enumerate(node.outputs):
            choice = choice_of(node, index, branches, self._aliases, written) if output.is_tensor else None
            if choice is not None:
                self._flows.part(choice.output.memory)
                same = choice.always()
                if same is None:
                    found.append(choice)
                else:
                    self._aliases.bind(output, same)
        return found

    def added(self, chosen: Chosen) -> list[tuple[Alias, Alias]]:
        """Add a choice; returns the aliases that may share memory from now on, if several choices overlap."""
        entwined = self._dissolve(chosen)
        if not entwined:
            self._of.update({alias.memory: chosen for alias in chosen.aliases()})
            return []
        pairs = [(other.output, alias) for other in (*entwined, chosen) for alias in other.branches.values()]
        for output, alias in pairs:
            self._flows.add([alias.memory], output.memory)
        return pairs

    def lose(self, memories: Iterable[Memory], writer: Node) -> None:
        """Note writes to memories in an inner block, which does not know the choices."""
        for memory in memories:
            chosen = self._of.get(memory)
            for other in [] if chosen is None else [alias.memory for alias in chosen.aliases()]:
                if other is not memory:
                    other.unknown_since = other.unknown_since or writer

    def _dissolve(self, chosen: Chosen) -> list[Chosen]:
        """Drop the choices that share a memory with a new one, and return them; the new one is not added either."""
        found = {known: None for alias in chosen.aliases() if (known := self._of.get(alias.memory)) is not None}
        for known in found:
            for alias in known.aliases():
                self._of.pop(alias.memory, None)
        return list(found)

    def spread(self, memory: Memory, writer: Node) -> None:
        """Pass on a write to the memories that the written one may be."""
        chosen = self._of.get(memory)
        if chosen is None:
            return
        for branch, alias in chosen.branches.items():
            source, target = (chosen.output, alias) if chosen.output.memory is memory else (alias, chosen.output)
            if source.memory is memory:
                self._choose(chosen.condition, branch, self._aliases.read(source), target, writer)

    def _choose(self, condition: Value, branch: int, content: Value, target: Alias, writer: Node) -> None:
        before = self._aliases.read(target)
        blocks = [Block(outputs=[content if number == branch else before]) for number in range(2)]
        result = Value(before.type)
        node = writer.like("prim::If", {"condition": condition}, [result])
        node.blocks = blocks
        self._emitter.nodes.append(node)
        self._aliases.write(target, result, writer)
        self._flows.write(target.memory, writer)


@dataclass(frozen=True, eq=False)
class Branch:
    """One branch of an If: its aliases, its captured results, and the values that it computes."""

    aliases: InheritedAliases
    results: Sequence[Value]
    made: Collection[Value]


def choice_of(
    node: Node, index: int, branches: Sequence[Branch], outer: Aliases, written: dict[Memory, Alias]
) -> Chosen | None:
    """The alias of a result in each branch; None if it is new in both, or its view cannot be taken outside."""
    output = node.outputs[index]
    found: dict[int, Alias] = {}
    for number, branch in enumerate(branches):
        path = _way_outside(branch, outer, branch.results[index], written)
        if path is None:
            continue
        alias = path[0]
        for step in path[1:]:
            view = _view_outside(step, branch.made)
            if view is None:
                return None
            alias = alias.results(view)[step.position]
        if not outer.owns(alias) or alias.content.type != output.type:
            return None
        found[number] = alias
    return Chosen(outer.of(output), node.inputs["condition"], found) if found else None


def _way_outside(branch: Branch, outer: Aliases, value: Value, written: dict[Memory, Alias]) -> list[Alias] | None:
    """The outside alias of a result, and the views inside that lead from it to the result."""
    alias = branch.aliases.known(value)
    if alias is None:
        return None if value in branch.made else [outer.of(value)]
    steps = [alias, *alias.ancestors()]
    entries = {branch.aliases.root(memory): root for memory, root in written.items()}
    begin = entries.get(steps[-1]) or branch.aliases.outside(steps[-1])
    return None if begin is None else [begin, *reversed(steps[:-1])]


def _view_outside(step: Alias, made: Collection[Value]) -> View | None:
    """The view of a step as a separate node; None if the block computes its arguments.

    The view is also taken if the other branch runs, and must not fail there at any size.
    """
    assert step.view is not None
    node, source = step.view.node, step.view.source
    static = all(isinstance(size, int) for size in node.inputs[source].shape)
    if not static and node.op not in NEVER_FAIL:
        return None
    if any(other in made for name, argument in node.inputs.items() if name != source for other in values_in(argument)):
        return None
    copy = node.like(node.op, dict(node.inputs), [Value(o.type) for o in node.outputs], overload=node.overload)
    copy.returns_list = node.returns_list
    return View(copy, source)
