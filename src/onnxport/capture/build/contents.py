"""What tensors hold that follow from sizes alone, at each evaluation point; and which depend on the inputs' content."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.script.points import REFUSALS
from onnxport.graph.interpret import evaluate, has_tag, writes
from onnxport.graph.ir import NUMBER, Argument, Node, Value

# Larger tensors are not computed for what Python reads of them.
MOST_ELEMENTS = 2**14
# Their result has the shape of an argument and none of its content.
SHAPE_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like", "new_zeros",
        "new_ones", "new_full", "new_empty", "new_empty_strided", "_shape_as_tensor", "sym_size", "size",
    )
)  # fmt: skip


class Contents:
    """``inputs`` are the values whose content is not known."""

    def __init__(self, inputs: Sequence[Value], points: Any) -> None:
        self._points = points
        self._depends: dict[Value, bool] = dict.fromkeys(inputs, True)
        self._known: dict[Value, list[Any] | None] = dict.fromkeys(inputs)
        points.contents = self.at_points

    def is_unknown(self, value: Value) -> None:
        """A value whose content is that of no node: what a round of a loop is given."""
        self._depends[value], self._known[value] = True, None

    def depends_on_inputs(self, value: Value) -> bool:
        """Whether its content comes from the content of an input, not only from sizes."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            given = _sources(current) if current not in self._depends else []
            missing = [source for source in given if source not in self._depends]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if current not in self._depends:
                self._depends[current] = any(self._depends[source] for source in given)
        return self._depends[value]

    def at_points(self, value: Value) -> list[Any] | None:
        """The content at each point; None where it is not known, or not small."""
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
        count = self._points.count
        if value.data is not None:
            self._known[value] = [value.data] * count
            return
        node = value.node
        outputs = [value] if node is None else node.outputs
        results = None if node is None or self.depends_on_inputs(value) else self._results(node)
        for place, output in enumerate(outputs):
            self._known[output] = None if results is None else [row[place] for row in results]

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
                arguments = {name: self._at(given, point) for name, given in node.inputs.items()}
                rows.append(evaluate(node, arguments))
            except (*REFUSALS, KeyError):
                return None
        return rows

    def _is_small(self, node: Node) -> bool:
        tensors = [value for value in (*node.outputs, *node.values()) if value.is_tensor]
        return all(
            math.prod(size if isinstance(size, int) else max(size.at) for size in value.shape) <= MOST_ELEMENTS
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


def _sources(value: Value) -> list[Value]:
    """The values that the content of this one comes from."""
    node = value.node
    if node is None or node.op in SHAPE_ONLY or node.op == NUMBER:
        return [v for v in node.values() if not v.is_tensor] if node is not None else []
    inner = [v for block in node.blocks for v in block.outer_values()]
    return [*node.values(), *inner]
