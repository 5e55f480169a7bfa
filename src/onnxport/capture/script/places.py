"""Where a scripted program is read: its nodes, the graphs that they belong to, and the lines that they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from onnxport import compat
from onnxport.capture.script.items import Item
from onnxport.graph.ir import Source

FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')


class Raised(Exception):
    """The program raises an exception here, whatever its inputs are."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


@dataclass
class Frame:
    """One graph that is being read: what its values are, and where it was called."""

    graph: Any
    path: str = ""
    called_at: Source | None = None
    env: dict[int, Item] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A node of the program, with the frame that it belongs to."""

    node: Any
    frame: Frame

    @property
    def source(self) -> Source | None:
        """The line of the user's: the node's own, or where torch's code was called from."""
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
    """The user's line that a node of a TorchScript graph was compiled from; None if it is torch's."""
    for file, line in FILE_LINE.findall(node.sourceRange()):
        if not file.startswith((compat.TORCH_FOLDER, "code/", "<")):
            return Source(file, int(line))
    return None
