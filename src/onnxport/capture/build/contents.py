"""The content of tensors that follow from sizes alone, at each evaluation point; other tensors depend on the inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.sizes.points import REFUSALS
from onnxport.graph.functionalize.views import source_name
from onnxport.graph.interpret import evaluate, has_tag, writes
from onnxport.graph.ir import NUMBER, Argument, Node, Value, schema_of
from onnxport.graph.sizes import SizeExpr

# Larger tensors are not computed for what Python reads from them.
MAX_ELEMENTS = 2**14
# Operators with a result that depends on the shape of an argument, but not on its content.
SHAPE_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like", "new_zeros",
        "new_ones", "new_full", "new_empty", "new_empty_strided", "_shape_as_tensor", "sym_size", "size",
    )
)  # fmt: skip


class Contents:
    """The contents of the values of a graph; that of its ``inputs`` is not known."""

    def __init__(self, inputs: Sequence[Value], points: Any) -> None:
        self._points = points
        self._depends: dict[Value, bool] = dict.fromkeys(inputs, True)
        self._known: dict[Value, list[Any] | None] = dict.fromkeys(inputs)
        self._written: dict[Value, list[Value]] = {}  # values that were written to the memory of a value
        self._drawn: set[Value] = set()  # random numbers that are different in each run
        self._by_sizes: set[Value] = set()  # values to which other elements are written at other sizes
        points.contents = self.at_points

    def is_unknown(self, value: Value) -> None:
        """Note a value that is not the result of a node: an input of a loop's body."""
        self._depends[value], self._known[value] = True, None

    def is_random(self, node: Node) -> None:
        """A node draws random numbers, or fills a tensor with them."""
        for output in node.outputs:
            self.is_unknown(output)
            self._drawn.add(output)
            self._written.setdefault(_base(output), []).append(output)

    def is_drawn(self, value: Value) -> bool:
        """Whether its content comes from random numbers, and from no input."""
        waiting, seen, drawn = [value], set(), False
        while waiting:
            current = waiting.pop()
            if current in self._drawn:
                drawn = True
            elif current.node is None and current in self._depends:
                return False
            elif current not in seen:
                waiting += [*_sources(current), *self._written.get(_base(current), ())]
            seen.add(current)
        return drawn

    def note_write(self, node: Node) -> None:
        """Note that a node has written to some of its arguments: their content is no longer that of earlier nodes."""
        if has_tag(node.op, node.overload, torch.Tag.inplace_view) and sum(v.is_tensor for v in node.values()) == 1:
            return  # the same content in another shape
        targets = [node.inputs.get(name) for name in _written_names(node)]
        for base in {_base(value) for value in targets if isinstance(value, Value)}:
            self._written.setdefault(base, []).extend(value for value in node.values() if _base(value) is not base)
            self._by_sizes |= {base} if any(map(is_dynamic, node.values())) else set()
            for value in [value for value in self._known.keys() | self._depends.keys() if _base(value) is base]:
                if value.node is not None:  # an input stays one
                    self._known.pop(value, None)
                    self._depends.pop(value, None)

    def depends_on_inputs(self, value: Value) -> bool:
        """Whether its content depends on that of an input, or on sizes in an unknown way."""
        waiting, seen = [value], set()
        while waiting:
            current = waiting.pop()
            if current in seen or self._depends.get(current) is False:
                continue
            seen.add(current)
            base = _base(current)
            if current in self._depends or base in self._by_sizes:
                self._depends[value] = True
                return True
            waiting += [*_sources(current), *self._written.get(base, ())]
        self._depends.update(dict.fromkeys(seen, False))
        return False

    def at_points(self, value: Value) -> list[Any] | None:
        """The content at each point; None if it is not known, or large."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            if current in self._known:
                waiting.pop()
                continue
            node = current.node
            missing = [v for v in node.values() if v not in self._known] if node is not None else []
            if missing and not self.depends_on_inputs(current):
                waiting += missing
                continue
            waiting.pop()
            self._compute(current)
        return self._known[value]

    def _compute(self, value: Value) -> None:
        if value.data is not None and value not in self._written:
            self._known[value] = [value.data] * self._points.count
            return
        node = value.node if _base(value) not in self._written else None
        outputs = [value] if node is None else node.outputs
        results = None if node is None or self.depends_on_inputs(value) else self._results(node)
        for index, output in enumerate(outputs):
            self._known[output] = None if results is None else [row[index] for row in results]

    def _results(self, node: Node) -> list[list[Any]] | None:
        if node.op == NUMBER:
            return [[number] for number in node.inputs["expression"].at]
        random = has_tag(node.op, node.overload, torch.Tag.nondeterministic_seeded)
        if node.blocks or random or (writes(node) and node.op != "aten::detach_") or not self._is_small(node):
            return None
        rows: list[list[Any]] = []
        for point in range(self._points.count):
            if point in self._points.dead:
                rows.append(rows[0])
                continue
            try:
                arguments = {name: self._at(argument, point) for name, argument in node.inputs.items()}
                rows.append(evaluate(node, arguments))
            except (*REFUSALS, KeyError):
                return None
        return rows

    def _is_small(self, node: Node) -> bool:
        tensors = [value for value in (*node.outputs, *node.values()) if value.is_tensor]
        return all(
            math.prod(size if isinstance(size, int) else max(size.at) for size in value.shape) <= MAX_ELEMENTS
            for value in tensors
        )

    def _at(self, argument: Argument, point: int) -> Any:
        if isinstance(argument, Value):
            known = self._known[argument]
            if known is None:
                raise KeyError(argument)
            return known[point]
        if isinstance(argument, (list, tuple)):
            return [self._at(element, point) for element in argument]
        return argument


def _base(value: Value) -> Value:
    """The value that owns the memory of another: the source of a view, the target of a write."""
    while value.node is not None:
        name = source_name(value.node) or next(iter(_written_names(value.node)), None)
        source = value.node.inputs.get(name) if name is not None else None
        if not isinstance(source, Value):
            break
        value = source
    return value


def is_dynamic(value: Value) -> bool:
    """Whether a value has other sizes at other points, or is a number."""
    return not value.is_tensor or any(isinstance(size, SizeExpr) for size in value.shape)


def _written_names(node: Node) -> list[str]:
    """The arguments that a node writes to."""
    schema = schema_of(node.op, node.overload) if writes(node) else None
    return [parameter.name for parameter in schema.parameters if parameter.writes] if schema is not None else []


def _sources(value: Value) -> list[Value]:
    """The values that the content of another is computed from."""
    node = value.node
    if node is None or node.op in SHAPE_ONLY or node.op == NUMBER:
        return [v for v in node.values() if not v.is_tensor] if node is not None else []
    inner = [v for block in node.blocks for v in block.outer_values()]
    return [*node.values(), *inner]
