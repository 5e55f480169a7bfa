"""Locations in a scripted program: its nodes, the graphs that they belong to, and their source lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from onnxport import compat
from onnxport.capture.script.items import Item
from onnxport.graph.ir import Source

FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')


class Raised(Exception):
    """The program raises an exception at this location for every input."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self.location = location


class Fork(Exception):
    """A condition at which tensors get other ranks: the rest of its block is read for each outcome."""

    def results(self, rest: Callable[[], list[Item]]) -> list[Item]:
        """What the block gives; ``rest`` reads it from the node with the condition on."""
        raise NotImplementedError


@dataclass
class Frame:
    """One graph that is being read: the items of its values, and the line of its call."""

    graph: Any
    path: str = ""
    called_at: Source | None = None
    env: dict[int, Item] = field(default_factory=dict)


@dataclass(frozen=True)
class Location:
    """A node of the program and the frame it belongs to."""

    node: Any
    frame: Frame

    @property
    def source(self) -> Source | None:
        """The user's line: the node's own, or the one that called torch's code."""
        own, caller = source_of(self.node), self.frame.called_at
        if own is None or caller is None:
            return own or caller
        return replace(own, callers=(caller, *caller.callers))

    @property
    def where(self) -> str:
        return str(self.source or self.frame.path or "the model")

    def blocks(self) -> list[Any]:
        return list(self.node.blocks())

    def output_kinds(self) -> list[str]:
        return [self.node.outputsAt(index).type().kind() for index in range(self.node.outputsSize())]


def source_of(node: Any) -> Source | None:
    """The user's line that a TorchScript node was compiled from; None for torch's own code."""
    for file, line in FILE_LINE.findall(node.sourceRange()):
        if not file.startswith((compat.TORCH_FOLDER, "code/", "<")):
            return Source(file, int(line))
    return None
