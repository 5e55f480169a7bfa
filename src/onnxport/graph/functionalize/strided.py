"""Makes ``as_strided`` independent of memory: afterwards its argument is a tensor with elements in memory order.

It reads the storage of its argument, whatever the views that led there. So it is moved from a view to the tensor that
owns the memory, permuted to its memory order; or it stays, if the view itself is in memory order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnxport.errors import UnsupportedOperatorError
from onnxport.graph.functionalize.layouts import Layouts
from onnxport.graph.functionalize.views import Emitter, View, argument, is_copy, is_identity, source_name
from onnxport.graph.interpret import evaluate, has_tag, writes
from onnxport.graph.ir import Argument, Block, Graph, Node, TensorType, Value, values_in
from onnxport.graph.sizes import size
from onnxport.graph.sizes import values as sizes_at

STRIDED = ("aten::as_strided", "aten::as_strided_", "aten::as_strided_scatter")


class _Unknown(Exception):
    """A number that is needed is data-dependent."""


def rebase_strided(graph: Graph) -> None:
    """Give each ``as_strided`` an argument with elements in memory order."""
    if any(node.op in STRIDED for node in graph.block.all_nodes()):
        _Rebasing(graph.captures).block(graph.block)


@dataclass(frozen=True)
class _Window:
    """The part of memory that an ``as_strided`` reads at one point: its length and its offset."""

    first: int | None
    reach: int

    def fits(self, start: int, elements: int) -> bool:
        return start >= 0 and start + self.reach < elements


class _Rebasing:
    """One walk over the graph, which tracks views and strides."""

    def __init__(self, captures: int) -> None:
        self._captures = captures
        self._layouts = Layouts()
        self._views: dict[Value, tuple[View, int]] = {}
        self._same: dict[Value, Value] = {}
        self._unknown: set[Value] = set()
        self._probes: dict[tuple[Value, int], torch.Tensor] = {}

    def block(self, block: Block) -> None:
        emitter = Emitter()
        for node in block.nodes:
            for inner in node.blocks:
                self.block(inner)
            if node.op in STRIDED:
                self._rebase(node, emitter)
            emitter.nodes.append(node)
            self._follow(node)
        block.nodes[:] = emitter.nodes

    def _follow(self, node: Node) -> None:
        if writes(node):
            return self._written(node)
        source = source_name(node)
        if source is None or is_copy(node, node.inputs[source], self._layouts):
            return self._layouts.compute(node)
        if is_identity(node, node.inputs[source]):
            return self._share(node.outputs[0], node.inputs[source])
        self._layouts.view(node, source)
        self._views |= {output: (View(node, source), position) for position, output in enumerate(node.outputs)}
        return None

    def _written(self, node: Node) -> None:
        assert node.schema is not None
        targets = [node.inputs[parameter.name] for parameter in node.schema.written()]
        if has_tag(node.op, node.overload, torch.Tag.inplace_view) or node.op == "aten::set_data":
            self._unknown.update(node.outputs, *map(values_in, targets))
            return
        for output, target in zip(node.outputs, targets, strict=False):
            if isinstance(target, Value):
                self._share(output, target)

    def _share(self, value: Value, other: Value) -> None:
        self._same[value] = other
        self._layouts.share(value, other)

    def _rebase(self, node: Node, emitter: Emitter) -> None:
        looked_at = self._original(node.inputs["self"])
        root = self._root(looked_at)
        if root in self._unknown or looked_at in self._unknown:
            raise _refusal(node)
        if root is looked_at and self._layouts.is_contiguous(root):
            return
        try:
            found = self._from_root(node, looked_at, root, emitter) or self._in_order(node, looked_at)
        except _Unknown:
            found = False
        if not found:
            raise _refusal(node)

    def _from_root(self, node: Node, looked_at: Value, root: Value, emitter: Emitter) -> bool:
        """Read from the tensor that owns the memory."""
        order = self._layouts.order(root)
        if order is None or root.dtype != looked_at.dtype or node.op != "aten::as_strided":
            return False
        before = 0 if root.data is None else int(root.data.storage_offset())
        starts = []
        for capture in range(self._captures):
            window, probe = self._window(node, capture), self._probe(looked_at, capture)
            start = int(probe.storage_offset()) if window.first is None else window.first - before
            if not window.fits(start, self._probe(root, capture).numel()):
                return False
            starts.append(start)
        first = size(starts)
        if not isinstance(first, int):
            return False
        whole = root
        if order != tuple(range(len(order))):
            shape = tuple(root.shape[axis] for axis in order)
            inputs: dict[str, Argument] = {"self": root, "dims": list(order)}
            whole = emitter.add(node, "aten::permute", inputs, TensorType(root.dtype, shape))
            self._follow(emitter.nodes[-1])
        node.inputs = {**node.inputs, "self": whole, "storage_offset": first}
        return True

    def _in_order(self, node: Node, looked_at: Value) -> bool:
        """Read from the view itself, if it is in memory order and has all elements that are read."""
        for capture in range(self._captures):
            window, probe = self._window(node, capture), self._probe(looked_at, capture)
            start = 0 if window.first is None else window.first - probe.storage_offset()
            if start or not probe.is_contiguous() or not window.fits(0, probe.numel()):
                return False
        node.inputs = {**node.inputs, "storage_offset": 0}
        return True

    def _window(self, node: Node, capture: int) -> _Window:
        lengths, steps = (self._at(argument(node, name), capture) for name in ("size", "stride"))
        reach = sum((length - 1) * step for length, step in zip(lengths, steps, strict=True))
        first = argument(node, "storage_offset")
        return _Window(None if first is None else self._at(first, capture), reach)

    def _original(self, value: Value) -> Value:
        while value in self._same:
            value = self._same[value]
        return value

    def _root(self, value: Value) -> Value:
        """The tensor that owns the memory of a value."""
        value = self._original(value)
        while value in self._views:
            view, _ = self._views[value]
            value = self._original(view.node.inputs[view.source])
        return value

    def _probe(self, value: Value, capture: int) -> torch.Tensor:
        """A meta tensor with the value's strides and offset at a point."""
        value = self._original(value)
        if (value, capture) not in self._probes:
            self._probes[value, capture] = self._lay(value, capture)
        return self._probes[value, capture]

    def _lay(self, value: Value, capture: int) -> torch.Tensor:
        if value in self._views:
            view, position = self._views[value]
            arguments = {name: self._at(given, capture) for name, given in view.node.inputs.items()}
            result: torch.Tensor = evaluate(view.node, arguments)[position]
            return result
        order = self._layouts.order(value)
        if order is None:
            raise _Unknown
        shape = [sizes_at(length, self._captures)[capture] for length in value.shape]
        dense = torch.empty([shape[axis] for axis in order], dtype=value.dtype, device="meta")
        return dense.permute([order.index(axis) for axis in range(len(order))])

    def _at(self, given: Argument, capture: int) -> Argument:
        if isinstance(given, (list, tuple)):
            return [self._at(element, capture) for element in given]
        if not isinstance(given, Value):
            return given
        if given.size is not None:
            return sizes_at(given.size, self._captures)[capture]
        if not given.is_tensor:
            raise _Unknown
        return self._probe(given, capture)


def _refusal(node: Node) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        f"{node.source or node.scope or 'the model'}: {node.full_name} reads the memory of a view with an unknown "
        "offset or strides. Use unfold(), or call it on a tensor made with clone()."
    )
