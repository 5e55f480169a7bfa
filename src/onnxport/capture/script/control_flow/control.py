"""``if`` in scripted code: variables that differ between the branches become results of one node."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport.capture.script.contents import NUMBER_DTYPES
from onnxport.capture.script.items import (
    Container,
    Item,
    Maybe,
    ScriptDict,
    ScriptList,
    ScriptObject,
    Text,
    Uninitialized,
)
from onnxport.capture.script.list_operators import is_same
from onnxport.capture.script.lists import as_value
from onnxport.capture.script.locations import Fork, Location, Raised
from onnxport.capture.script.reader import Reader
from onnxport.errors import CaptureError
from onnxport.graph.interpret import writes
from onnxport.graph.ir import Block, Node, ScalarType, SequenceType, TensorType, Type, Value, values_in
from onnxport.graph.ranks import unranked_type


@dataclass
class Branch:
    """One branch of an ``if``: its nodes, its results, and the new state of the containers that it changes."""

    nodes: list[Node]
    items: list[Item]
    changed: dict[Container, Any]
    results: list[Value] = field(default_factory=list)


def if_else(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    condition = args[0]
    blocks = location.blocks()
    key = id(location.frame), location.node.outputsAt(0).unique() if location.node.outputsSize() else -1
    if not isinstance(condition, Value) or key in reader.outcomes:
        holds = reader.outcomes[key] if isinstance(condition, Value) else condition
        return reader.block(location.frame, blocks[0 if holds else 1])
    branches = [_branch(reader, functools.partial(reader.block, location.frame, block)) for block in blocks]
    items = [branch.items for branch in branches if branch is not None]
    if reader.unranked and len(items) == len(branches) and any(map(_have_other_ranks, *items)):
        raise Condition(reader, location, condition, key)
    return _joined(reader, location, condition, branches)


class Condition(Fork):
    """A fork at a condition of the program, or one that decides what an operator does."""

    def __init__(self, reader: Reader, location: Location, condition: Value, key: tuple[int, ...]) -> None:
        super().__init__(location)
        self._reader, self._location, self._condition, self._key = reader, location, condition, key

    def results(self, rest: Callable[[], list[Item]]) -> list[Item]:
        outcomes = self._reader.outcomes
        branches = []
        for outcome in (True, False):
            outcomes[self._key] = outcome
            branches.append(_branch(self._reader, rest))
            del outcomes[self._key]
        return list(_joined(self._reader, self._location, self._condition, branches))


def _joined(reader: Reader, location: Location, condition: Value, branches: Sequence[Branch | None]) -> Sequence[Item]:
    kept = [branch for branch in branches if branch is not None]
    if not kept:
        raise Raised(location)
    if len(kept) == 1:
        reader.notes.append(f"{location.where}: the exception that is raised here is not part of the file")
        return _alone(reader, kept[0])
    return _Join(reader, location, kept).run(condition)


def _alone(reader: Reader, branch: Branch) -> list[Item]:
    """The only branch that does not raise, in the place of the condition."""
    reader.nodes += branch.nodes
    for container, content in branch.changed.items():
        reader.heap.save(container)
        container.content = content
    return branch.items


def _have_other_ranks(left: Item, right: Item) -> bool:
    """Whether two items have tensors of other ranks, which are no result of one ``If`` that more is computed from."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return any(map(_have_other_ranks, left, right))
    both = isinstance(left, Value) and isinstance(right, Value)
    return both and unranked_type(left.type, right.type) is not None


def _branch(reader: Reader, read: Callable[[], list[Item]]) -> Branch | None:
    """One branch of an ``if``, read on its own; None if it raises."""
    nodes: list[Node] = []
    reader.heap.enter()
    try:
        with reader.inside(nodes):
            items = read()
    except Raised:
        reader.heap.leave()
        return None
    except BaseException:
        reader.heap.leave()
        raise
    return Branch(nodes, items, reader.heap.leave())


class _Join:
    """Joins the items that the two branches have for the same variable."""

    def __init__(self, reader: Reader, location: Location, branches: list[Branch]) -> None:
        self.reader = reader
        self.location = location
        self.branches = branches
        self.outputs: list[Value] = []

    def run(self, condition: Value) -> list[Item]:
        first, second = self.branches
        items = [self.item(left, right) for left, right in zip(first.items, second.items, strict=True)]
        for container in dict.fromkeys((*first.changed, *second.changed)):
            states = [branch.changed.get(container, container.content) for branch in self.branches]
            state = self.state(container, *states)
            self.reader.heap.save(container)
            container.state = state
        written = any(writes_outside(branch.nodes) for branch in self.branches)
        if self.outputs or written:
            blocks = [Block([], branch.nodes, branch.results) for branch in self.branches]
            frame = self.location.frame
            inputs = {"condition": condition}
            node = Node("prim::If", inputs, self.outputs, scope=frame.path, source=self.location.source, blocks=blocks)
            self.reader.nodes.append(node)
        return items

    def item(self, left: Item, right: Item) -> Item:
        left, right = same_tensor(left), same_tensor(right)
        if is_same(left, right) and type(left) is type(right):
            return left
        if isinstance(left, Uninitialized) or isinstance(right, Uninitialized):
            return self._initialized(left, right)
        if isinstance(left, tuple) and isinstance(right, tuple):
            return tuple(self.item(a, b) for a, b in zip(left, right, strict=True))
        states = [self._after(branch, item) for branch, item in zip(self.branches, (left, right), strict=True)]
        if isinstance(left, ScriptList) and isinstance(right, ScriptList):
            kind = left.kind if states[0] != [] else right.kind
            return self._either(ScriptList(self.state(left, *states), kind), left, right)
        if isinstance(left, ScriptDict) and isinstance(right, ScriptDict):
            return self._either(ScriptDict(self.state(left, *states)), left, right)
        if isinstance(left, ScriptObject) and isinstance(right, ScriptObject):
            made = ScriptObject(left.type_name)
            made.state = self.state(left, *states)
            return self._either(made, left, right)
        if left is None or right is None or isinstance(left, Maybe) or isinstance(right, Maybe):
            return self._optional(left, right)
        if isinstance(left, (str, Text)) or isinstance(right, (str, Text)):
            return Text()
        return self._value(left, right)

    @staticmethod
    def _after(branch: Branch, item: Item) -> Any:
        """The content of a container at the end of a branch."""
        return branch.changed.get(item, item.state) if isinstance(item, Container) else None

    def _either(self, made: Container, left: Container, right: Container) -> Container:
        made.may_be(left, right)
        return made

    def state(self, container: Container, left: Any, right: Any) -> Any:
        """The content of a container after the ``if``."""
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys() and not isinstance(container, ScriptObject):
                raise CaptureError(f"{self.location.where}: a dict has different keys in the two branches")
            return {key: self.item(left[key], right[key]) for key in left if key in right}
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            return [self.item(a, b) for a, b in zip(left, right, strict=True)]
        kind = container.kind if isinstance(container, ScriptList) else "Any"
        values = []
        element = None
        if kind not in NUMBER_DTYPES:
            element = next((t for t in map(_element, (left, right)) if t is not None), None)
        for branch, state in zip(self.branches, (left, right), strict=True):
            with self.reader.inside(branch.nodes):
                values.append(_sequence(self.reader, self.location, ScriptList(state, kind), element))
        return self._value(*values)

    def _initialized(self, left: Item, right: Item) -> Item:
        """A variable that is not read after one of the branches."""
        known = right if isinstance(left, Uninitialized) else left
        if isinstance(known, Value):
            dummy = dummy_value(known.type)
            return self._value(*((dummy, known) if known is right else (known, dummy)))
        if isinstance(known, (bool, int, float)):
            return known
        if isinstance(known, tuple):
            return tuple(self._initialized(*((left, part) if known is right else (part, right))) for part in known)
        branch = self.branches[known is right]
        state = self._after(branch, known)
        made = {output for node in branch.nodes for output in node.outputs}
        if isinstance(known, ScriptList) and any(value in made for value in values_in(state)):
            if isinstance(state, list):
                parts = [self._initialized(*((left, part) if known is right else (part, right))) for part in state]
                return ScriptList(parts, known.kind)
            return ScriptList(self.state(known, *(([], state) if known is right else (state, []))), known.kind)
        return known

    def _optional(self, left: Item, right: Item) -> Maybe:
        flags = [item.present if isinstance(item, Maybe) else item is not None for item in (left, right)]
        parts = [item.item if isinstance(item, Maybe) else item for item in (left, right)]
        there = [Uninitialized() if part is None else part for part in parts]
        only = parts[parts[0] is None] if any(part is None for part in parts) else None
        return Maybe(self._value(*flags), self.item(*there), only)

    def _value(self, left: Item, right: Item) -> Value:
        values = [as_constant(item, self.location) for item in (left, right)]
        types = [value.type for value in values]
        unranked = unranked_type(*types) if self.reader.unranked else None
        output = self.reader.run_time_number(Value(unranked or join_types(self.reader, self.location, *types)))
        for branch, value in zip(self.branches, values, strict=True):
            branch.results.append(value)
        self.outputs.append(output)
        return output


def join_types(reader: Reader, location: Location, left: Type, right: Type) -> Type:
    if isinstance(left, SequenceType) and isinstance(right, SequenceType):
        return SequenceType(reader.common(location, left.element, right.element))
    if isinstance(left, ScalarType) and isinstance(right, ScalarType):
        if left != right:
            raise CaptureError(
                f"{location.where}: a number is {left.kind.__name__} in one branch and {right.kind.__name__} in the "
                "other; ONNX needs one type. Convert one of them."
            )
        return left
    return reader.common(location, left, right)


def as_constant(item: Item, location: Location) -> Value:
    """A number of the program as a value that a block can return."""
    if isinstance(item, Value):
        return item
    if isinstance(item, (bool, int, float)):
        data = torch.tensor(item, dtype=torch.float64 if isinstance(item, float) else None)
        return Value(ScalarType(type(item)), data=data, size=item if type(item) is int else None)
    raise CaptureError(f"{location.where}: {type(item).__name__} cannot be chosen at run time in ONNX")


def dummy_value(type: Type) -> Value:
    """A value of the type, for a variable that is not read."""
    if isinstance(type, TensorType):
        shape = [length if isinstance(length, int) else 1 for length in type.shape]
        return Value(TensorType(type.dtype, tuple(shape)), data=torch.zeros(shape, dtype=type.dtype))
    if isinstance(type, ScalarType):
        return as_constant(type.kind(0), None)  # type: ignore[arg-type]
    raise CaptureError("a list is set in one branch only; set it in both, or before the condition")


def same_tensor(item: Item) -> Item:
    """The tensor itself for results of operators that write to it and return it."""
    while isinstance(item, Value) and item.node is not None and item.is_tensor and writes(item.node):
        written = item.node.inputs.get("self")
        if not isinstance(written, Value) or item.node.op in ("aten::set_", "aten::squeeze_", "aten::unsqueeze_"):
            break
        item = written
    return item


def writes_outside(nodes: Sequence[Node]) -> bool:
    return any(writes(node) or any(writes_outside(block.nodes) for block in node.blocks) for node in nodes)


def _element(state: Any) -> TensorType | None:
    if isinstance(state, Value):
        return state.type.element if isinstance(state.type, SequenceType) else None
    tensors = [item.type for item in state if isinstance(item, Value) and isinstance(item.type, TensorType)]
    return tensors[0] if tensors else None


def _sequence(reader: Reader, location: Location, container: ScriptList, element: TensorType | None) -> Value:
    """A list as one value, also if it is empty."""
    if container.items == [] and element is not None:
        return reader.add(location, "onnxport::sequence", [SequenceType(element)], tensors=[])[0]
    return as_value(reader, location, container)
