"""Loops: short ones with a known number of iterations are unrolled, the others become a node with a body.

A loop carries what an iteration may change: its own variables, and the containers that its body writes to. The body is
read again with more general types of what is carried, until an iteration changes no type any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.capture.script.contents import NUMBER_DTYPES
from onnxport.capture.script.control_flow.carried import (
    Fixed,
    Leaf,
    Parts,
    Perhaps,
    changed_again,
    differing,
    element_types,
    filled,
    first_value,
    free_dims,
    items_before,
    list_value,
    shown,
    state_of,
    tensor_in,
)
from onnxport.capture.script.control_flow.control import as_constant, dummy_value, join_types, same_tensor
from onnxport.capture.script.items import (
    Container,
    Item,
    Maybe,
    ScriptDict,
    ScriptList,
    Text,
    Uninitialized,
    link,
)
from onnxport.capture.script.list_operators import is_same
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Reader
from onnxport.errors import CaptureError
from onnxport.graph.ir import Block, Node, ScalarType, SequenceType, TensorType, Value

ENDLESS = 2**63 - 1
MAX_ITERATIONS = 16
MAX_NODES = 256
# Where a loop cannot stay a loop.
MAX_UNROLLED = 128
MAX_READINGS = 10


def loop(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    limit, condition, *carried = args
    body = location.blocks()[0]
    if limit == 0 or condition is False:
        return carried
    if isinstance(limit, Value) or isinstance(condition, Value):
        return _Loop(reader, location, body, carried).run(limit, condition)
    unrolled = _unrolled(reader, location, body, limit, carried, MAX_ITERATIONS)
    if unrolled is not None:
        return unrolled
    try:
        return _Loop(reader, location, body, carried).run(limit, condition)
    except CaptureError:  # the loop carries something that has no form in ONNX
        unrolled = _unrolled(reader, location, body, limit, carried, MAX_UNROLLED)
        if unrolled is None:
            raise
        return unrolled


def _unrolled(
    reader: Reader, location: Location, body: Any, limit: int, carried: list[Item], most: int
) -> list[Item] | None:
    """The results of all iterations in a row; None if their number is not known, or more than ``most``."""
    nodes: list[Node] = []
    reader.heap.enter()
    inputs = list(body.inputs())
    iteration = 0
    with reader.inside(nodes):
        while iteration < limit:
            if iteration == most or len(nodes) > most * MAX_NODES // MAX_ITERATIONS:
                reader.heap.leave()
                return None
            for value, item in zip(inputs, (iteration, *carried), strict=True):
                location.frame.env[value.unique()] = item
            condition, *carried = reader.block(location.frame, body)
            iteration += 1
            if isinstance(condition, Value):
                reader.heap.leave()
                return None
            if not condition:
                break
    reader.heap.keep()
    reader.nodes += nodes
    return carried


class _Loop:
    def __init__(self, reader: Reader, location: Location, body: Any, carried: list[Item]) -> None:
        self.reader = reader
        self.location = location
        self.body = body
        self.begin = carried
        self.results: list[Item] = []
        self.carried = [self._general(item) for item in carried]
        self.containers: dict[Container, Any] = {}
        self.changed = True

    def run(self, limit: Item, condition: Item) -> list[Item]:
        for _ in range(MAX_READINGS):
            self.changed = False
            found = self._reading()
            if not self.changed:
                return self._finish(limit, condition, *found)
        raise CaptureError(
            f"{self.location.where}: the types of this loop's variables still change after {MAX_READINGS} readings of "
            "its body; give them one dtype and one number of dimensions before the loop"
        )

    def _general(self, item: Item) -> Any:
        item = same_tensor(item)
        if isinstance(item, Value):
            return Leaf(item.type, item)
        if isinstance(item, tuple):
            return Parts(item, {index: self._general(part) for index, part in enumerate(item)})
        if isinstance(item, ScriptList):
            return self._general_state(item, item.state)
        if isinstance(item, Maybe):
            return Perhaps(self._general(item.present), self._general(item.item))
        return Fixed(item)

    def _general_state(self, container: Item, state: Any) -> Any:
        if isinstance(state, Value):
            return Leaf(state.type, state)
        pairs = state.items() if isinstance(state, dict) else enumerate(state)
        return Parts(container, {key: self._general(part) for key, part in pairs})

    def _reading(self) -> tuple[list[Value], list[Node], Item, list[tuple[Leaf, Value, Item]]]:
        """Read the body once, and make the templates of what it carries as general as this iteration needs."""
        begun = self.reader.heap.enter()
        entries: list[tuple[Leaf, Value]] = []
        index = self.reader.run_time_number(Value(ScalarType(int)))
        nodes: list[Node] = []
        try:
            items = [self._enter(template, entries) for template in self.carried]
            link(items, self.begin)
            for container, template in self.containers.items():
                self.reader.heap.save(container)
                container.state = state_of(self._enter(template, entries))
            inputs = list(self.body.inputs())
            for value, item in zip(inputs, (index, *items), strict=True):
                self.location.frame.env[value.unique()] = item
            with self.reader.inside(nodes):
                condition, *results = self.reader.block(self.location.frame, self.body)
        finally:
            changed = self.reader.heap.leave()
        self.results = results
        changed_again(items, results, begun)
        entry_of = dict(zip((id(leaf) for leaf, _ in entries), (value for _, value in entries), strict=True))
        pairs: list[tuple[Leaf, Value, Item]] = []
        self._entry_of, self._pairs, self._nodes, self._changed = entry_of, pairs, nodes, changed
        self.carried = [self._widen(t, item) for t, item in zip(self.carried, results, strict=True)]
        for container, state in changed.items():
            if container not in self.containers:
                self.containers[container] = self._general_state(container, container.state)
                self.changed = True
            else:
                self.containers[container] = self._widen_state(self.containers[container], container, state)
        return [index, *(value for _, value in entries)], nodes, condition, pairs

    def _enter(self, template: Any, entries: list[tuple[Leaf, Value]]) -> Item:
        """The item inside the body; the new input for each leaf is added to ``entries``."""

        def new_input(leaf: Leaf) -> Value:
            value = self._new(leaf)
            entries.append((leaf, value))
            return value

        return filled(template, new_input)

    def _new(self, leaf: Leaf) -> Value:
        """A value of the leaf's type, with fresh sizes where iterations differ."""
        type = leaf.type
        if isinstance(type, TensorType):
            shape = tuple(self.reader.points.guess() if a in leaf.free else s for a, s in enumerate(type.shape))
            return Value(TensorType(type.dtype, shape))
        if isinstance(type, SequenceType):
            element = type.element
            shape = tuple(self.reader.points.guess() if a in leaf.free else s for a, s in enumerate(element.shape))
            return Value(SequenceType(TensorType(element.dtype, shape)))
        return self.reader.run_time_number(Value(type))

    def _widen(self, template: Any, item: Item) -> Any:
        item = same_tensor(item)
        if isinstance(template, Fixed):
            return self._loosen(template, item)
        if isinstance(template, Perhaps):
            present = item.present if isinstance(item, Maybe) else item is not None
            there = item.item if isinstance(item, Maybe) else Uninitialized() if item is None else item
            return Perhaps(self._widen(template.present, present), self._widen(template.item, there))
        if item is None or isinstance(item, Maybe):
            self.changed = True
            return Perhaps(Leaf(ScalarType(bool), True), template)
        if isinstance(template, Parts):
            if isinstance(item, ScriptList):
                return self._widen_state(template, item, self._changed.get(item, item.state))
            if isinstance(item, Uninitialized):
                return Parts(template.of, {key: self._widen(part, item) for key, part in template.parts.items()})
            parts = zip(template.parts.items(), item, strict=True)
            return Parts(template.of, {key: self._widen(part, i) for (key, part), i in parts})
        if isinstance(item, ScriptList):
            return self._widen_state(template, item, self._changed.get(item, item.state))
        return self._widen_leaf(template, item)

    def _widen_state(self, template: Any, container: Item, state: Any) -> Any:
        """The same for the content of a container."""
        if isinstance(template, Fixed):
            return template if template.item is container else self._general_state(container, state)
        if isinstance(template, Leaf):
            if not isinstance(state, Value):
                with self.reader.inside(self._nodes):
                    state = list_value(self.reader, self.location, ScriptList(state, container.kind), template)
            return self._widen_leaf(template, state)
        if isinstance(state, dict):
            keys = dict.fromkeys((*template.parts, *state))
            if any(key not in template.parts for key in keys) and isinstance(container, ScriptDict):
                raise CaptureError(f"{self.location.where}: a dict gets a new key in a loop; ONNX has no dicts")
            missing = {key: Fixed(Uninitialized()) for key in state if key not in template.parts}
            self.changed = self.changed or bool(missing)
            parts = {**template.parts, **missing}
            return Parts(template.of, {key: self._widen(part, state[key]) for key, part in parts.items()})
        if isinstance(state, list) and len(state) == len(template.parts):
            return Parts(template.of, {key: self._widen(t, state[key]) for key, t in template.parts.items()})
        return self._growing(template, container, state)

    def _growing(self, template: Parts, container: ScriptList, state: Any) -> Leaf:
        """A list that has another length after an iteration: it becomes one value."""
        self.changed = True
        kind = container.kind
        first = template.of if isinstance(template.of, ScriptList) else container
        if kind in NUMBER_DTYPES:
            begin = ScriptList(items_before(template), kind)
            return Leaf(TensorType(NUMBER_DTYPES[kind], (len(begin.state),)), begin, {0})
        before = [part.type for part in template.parts.values() if isinstance(part, Leaf)]
        elements = [*element_types(state), *(type for type in before if isinstance(type, TensorType))]
        if not elements:
            raise CaptureError(
                f"{self.location.where}: a list of {kind} grows in this loop; ONNX has lists of tensors and of numbers "
                "only. Keep one list for each part of its elements."
            )
        element = elements[0]
        free: set[int] = set()
        for other in elements[1:]:
            free |= differing(self.reader, self.location, element, other)
        begin = ScriptList(items_before(template), first.kind if first.kind != "Any" else kind)
        return Leaf(SequenceType(element), begin, free)

    def _loosen(self, template: Fixed, item: Item) -> Any:
        """The template for something that was the same in every iteration so far."""
        before = template.item
        if is_same(before, item) and type(before) is type(item):
            return template
        if isinstance(before, Text) or isinstance(item, Text):
            return Fixed(Text())
        self.changed = True
        if isinstance(before, Uninitialized):
            return self._unset(item)
        if isinstance(before, Value) and isinstance(item, (Value, bool, int, float)):
            return Leaf(before.type, before, varies=True)
        if before is None:
            there = item.item if isinstance(item, Maybe) else item
            return Perhaps(Leaf(ScalarType(bool), False), self._unset(there))
        if item is None or isinstance(item, Maybe):
            return Perhaps(Leaf(ScalarType(bool), True), template)
        if isinstance(before, (bool, int, float)):
            return Leaf(ScalarType(type(before)), before)
        if isinstance(item, Uninitialized):
            return template
        raise CaptureError(
            f"{self.location.where}: a variable is {shown(before)} before this loop and {shown(item)} after an "
            "iteration; ONNX needs one type. Give it a value of the same type before the loop."
        )

    def _unset(self, item: Item) -> Any:
        """The template for something that an iteration sets before it is read."""
        if isinstance(item, Value):
            return Leaf(item.type, dummy_value(item.type), free_dims(item.type))
        if isinstance(item, tuple):
            return Parts(item, {index: self._unset(part) for index, part in enumerate(item)})
        if isinstance(item, Maybe):
            return Perhaps(Leaf(ScalarType(bool), False), self._unset(item.item))
        if not isinstance(item, ScriptList):
            return Fixed(item)
        if item.items is not None:
            return Parts(item, {index: self._unset(part) for index, part in enumerate(item.items)})
        if item.state.is_tensor:
            return Leaf(item.state.type, ScriptList([], item.kind), {0})
        return Leaf(item.state.type, ScriptList([], item.kind), free_dims(item.state.type))

    def _widen_leaf(self, leaf: Leaf, result: Item) -> Any:
        entry = self._entry_of[id(leaf)]
        if result is entry or (isinstance(result, Value) and result is leaf.first):
            if leaf.free or leaf.varies or isinstance(leaf.first, ScriptList):
                self._pairs.append((leaf, entry, result))
                return leaf
            self.changed = True
            return Fixed(leaf.first)
        if isinstance(result, Uninitialized):
            result = dummy_value(leaf.type)
        value = as_constant(result, self.location)
        before = tensor_in(leaf.type)
        after = tensor_in(value.type)
        if before is not None and after is not None:
            differ = differing(self.reader, self.location, tensor_in(entry.type) or before, after) - leaf.free
            if differ:
                self.changed = True
                return Leaf(leaf.type, leaf.first, leaf.free | differ, leaf.varies)
        else:
            join_types(self.reader, self.location, leaf.type, value.type)
        self._pairs.append((leaf, entry, value))
        return leaf

    def _finish(
        self, limit: Item, condition: Item, inputs: list[Value], nodes: list[Node], again: Item, pairs: Any
    ) -> list[Item]:
        reader, location = self.reader, self.location
        outputs = {id(leaf): self._new(leaf) for leaf, _, _ in pairs}
        results = {id(entry): value for _, entry, value in pairs}
        block = Block(inputs, nodes, [as_constant(again, location), *(results[id(entry)] for entry in inputs[1:])])
        firsts = [first_value(reader, location, leaf) for leaf, _, _ in pairs]
        order = {id(entry): position for position, entry in enumerate(inputs[1:])}
        ordered = sorted(zip(pairs, firsts, strict=True), key=lambda pair: order[id(pair[0][1])])
        arguments = {
            "limit": None if limit == ENDLESS else limit,
            "condition": condition,
            "carried": [first for _, first in ordered],
        }
        made = [outputs[id(leaf)] for (leaf, _, _), _ in ordered]
        frame = location.frame
        reader.nodes.append(
            Node("prim::Loop", arguments, made, scope=frame.path, source=location.source, blocks=[block])
        )
        for container, template in self.containers.items():
            reader.heap.save(container)
            container.state = state_of(filled(template, lambda leaf: outputs[id(leaf)]))
        items = [filled(template, lambda leaf: outputs[id(leaf)]) for template in self.carried]
        link(items, self.begin)
        link(items, self.results)
        return items
