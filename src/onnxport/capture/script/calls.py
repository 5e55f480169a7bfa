"""Calls of scripted functions and modules that a trace recorded, read from their scripts in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnxport import compat
from onnxport.capture.reader import Record
from onnxport.capture.script import HANDLERS, MOST_READINGS, module_item
from onnxport.capture.script.arguments import argument_item
from onnxport.capture.script.builtins import Unresolved
from onnxport.capture.script.items import Item, ScriptList
from onnxport.capture.script.points import OneSize, Points
from onnxport.capture.script.reader import Frame, Place, Raised, Reader
from onnxport.errors import CaptureError
from onnxport.graph.dims import values
from onnxport.graph.ir import Argument, Node, Source, Value, Varying

CALLS = frozenset({"prim::CallFunction", "prim::CallMethod"})


@dataclass(frozen=True)
class Callee:
    """A script that is called: its graph, the path of its module, and the line of the call."""

    graph: Any
    path: str
    source: Source | None
    where: str
    is_function: bool


class Calls:
    """The scripts that one model calls. ``numbers`` gets what the numbers among their results are at each capture."""

    def __init__(
        self, scripts: Sequence[tuple[str, Any]], points: Points, numbers: dict[Value, tuple[Any, ...]]
    ) -> None:
        self.scripts = scripts
        self.points = points
        self.numbers = numbers
        self.parameters: dict[int, Value] = {}
        self._modules: dict[int, Item] = {}
        self._roots: dict[Any, Item] = {}

    def module(self, index: int) -> Item:
        if index not in self._modules:
            path, module = self.scripts[index]
            self._modules[index] = module_item(compat.scripts.script_object(module), path, self.parameters)
        return self._modules[index]

    def item(self, path: str, script: Any, steps: Sequence[str]) -> Item:
        """A module inside of a scripted one, which is at this path."""
        if script not in self._roots:
            self._roots[script] = module_item(script, path, self.parameters)
        found = self._roots[script]
        for name in steps:
            found = found.state.get(name) or found.load(name)
        return found

    def call(self, record: Record, given: Sequence[Argument], nodes: list[Node]) -> Argument:
        """The nodes of the script that a trace calls are added; returns what it returns."""
        graph, arguments, path = self._callee(record, given)
        is_function = record.kind == "prim::CallFunction"
        callee = Callee(graph, path, record.source, str(record.source or record.scope or "the model"), is_function)
        return self._argument(self.read(callee, arguments, nodes))

    def read(self, callee: Callee, given: Sequence[Argument], nodes: list[Node]) -> Item:
        """The nodes of the script are added; returns what it returns.

        Where two sizes of a function turn out to be one, the function alone is read again, as far as that suffices;
        a method may have changed its module by then.
        """
        start, added = self.points.sites, len(nodes)
        for _ in range(MOST_READINGS):
            try:
                return self._read(callee, given, nodes)
            except OneSize as found:
                if not callee.is_function or not self.points.rewind(start, found):
                    raise
                del nodes[added:]
        raise CaptureError(f"{callee.where}: the sizes in this scripted code depend on each other in an unknown way")

    def _read(self, callee: Callee, given: Sequence[Argument], nodes: list[Node]) -> Item:
        if any(isinstance(argument, Varying) for argument in given):
            raise CaptureError(f"{callee.where}: a scripted function is given a constant that differs between sizes")
        reader = Reader(self.points, HANDLERS)
        reader.nodes = nodes
        reader.has_complex = True  # what it is given may come from anywhere
        graph = callee.graph
        parameters = list(graph.inputs())
        frame = Frame(graph, callee.path, callee.source)
        place = Place(graph.param_node(), frame)
        items = [argument_item(reader, place, a, p.type()) for a, p in zip(given, parameters, strict=True)]
        try:
            return reader.call(graph, items, callee.path, callee.source)
        except Unresolved:
            raise CaptureError(f"{callee.where}: the scripted code calls a function that is not known here") from None
        except Raised as raised:
            raise CaptureError(f"{raised.place.where}: the scripted code raises an exception for every input") from None

    def _callee(self, record: Record, given: Sequence[Argument]) -> tuple[Any, list[Argument], str]:
        if record.kind == "prim::CallMethod":
            owner = given[0]
            graph = compat.scripts.script_method_graph(owner.script, owner.type_name, record.node.s("name"))
            return graph, list(given), owner.path or record.scope
        name = record.node.inputsAt(0).type().annotation_str
        return compat.scripts.script_function_graph(name), list(given[1:]), record.scope

    def _argument(self, item: Item) -> Argument:
        if isinstance(item, (tuple, ScriptList)):
            parts = item if isinstance(item, tuple) else item.state
            return [self._argument(part) for part in parts] if isinstance(parts, (list, tuple)) else parts
        if isinstance(item, Value) and item.size is not None:
            self.numbers[item] = values(item.size, self.points.count)
        return item
