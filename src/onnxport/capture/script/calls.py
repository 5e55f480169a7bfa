"""Calls of scripted functions and modules that a recorded model makes, replaced by the nodes of their scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxport.capture.script import HANDLERS, MAX_READINGS, module_item
from onnxport.capture.script.arguments import argument_item
from onnxport.capture.script.builtins import Unresolved
from onnxport.capture.script.items import Item
from onnxport.capture.script.locations import Frame, Location, Raised
from onnxport.capture.script.reader import Reader
from onnxport.capture.sizes.guesses import OneSize
from onnxport.capture.sizes.points import Points
from onnxport.errors import CaptureError
from onnxport.graph.ir import Argument, Node, Source, Value


@dataclass(frozen=True)
class Callee:
    """A script that is called: its graph, the path of its module, and the line of the call."""

    graph: Any
    path: str
    source: Source | None
    where: str
    is_function: bool


class Calls:
    """The scripts that one model calls; ``parameters`` are its weights, by the ``id`` of their tensors."""

    def __init__(self, points: Points, parameters: Mapping[int, Value]) -> None:
        self.points = points
        self.parameters = parameters
        self._roots: dict[Any, Item] = {}

    def item(self, path: str, script: Any, steps: Sequence[str]) -> Item:
        """A submodule of the scripted module at this path; ``steps`` are the attributes that lead to it."""
        if script not in self._roots:
            self._roots[script] = module_item(script, path, self.parameters)
        found = self._roots[script]
        for name in steps:
            found = found.state.get(name) or found.load(name)
        return found

    def read(self, callee: Callee, args: Sequence[Argument], nodes: list[Node]) -> Item:
        """Add the nodes of the script to ``nodes``; returns its result.

        Where two sizes turn out to be equal, a function is read again by itself. A method may have changed its module
        by then, so the whole record is read again.
        """
        start, added = self.points.sites, len(nodes)
        for _ in range(MAX_READINGS):
            try:
                return self._read(callee, args, nodes)
            except OneSize as found:
                if not callee.is_function or not self.points.rewind(start, found):
                    raise
                del nodes[added:]
        raise CaptureError(
            f"{callee.where}: the sizes in this scripted code are still not settled after {MAX_READINGS} readings; "
            "call it without scripting it"
        )

    def _read(self, callee: Callee, args: Sequence[Argument], nodes: list[Node]) -> Item:
        reader = Reader(self.points, HANDLERS)
        reader.nodes = nodes
        reader.has_complex = True  # what it is given may come from anywhere
        graph = callee.graph
        parameters = list(graph.inputs())
        frame = Frame(graph, callee.path, callee.source)
        location = Location(graph.param_node(), frame)
        items = [argument_item(reader, location, a, p.type()) for a, p in zip(args, parameters, strict=True)]
        try:
            return reader.call(graph, items, callee.path, callee.source)
        except Unresolved:
            raise CaptureError(f"{callee.where}: the scripted code calls a function that torch does not know") from None
        except Raised as raised:
            raise CaptureError(
                f"{raised.location.where}: the scripted code raises an exception for every input"
            ) from None
