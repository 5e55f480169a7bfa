"""Branches in the common graph of several traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onnxport.capture.reader import Origin
from onnxport.graph.ir import Argument, Block, Node, Value


@dataclass
class _Open:
    """A branch that is being read: the list that it lies in, and its sides as far as they are known."""

    around: list[Node]
    condition: Argument
    nodes: list[Node] = field(default_factory=list)
    sides: list[Block] = field(default_factory=list)


class Branching:
    """The branches around the node that is being read."""

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def enter(self, around: list[Node], condition: Argument) -> list[Node]:
        """Begin a branch; the list for the nodes of its first side."""
        self._open.append(_Open(around, condition))
        return self._open[-1].nodes

    def turn(self, results: Sequence[Argument]) -> list[Node]:
        """End a side, which gives these; the list for the nodes of the other one."""
        branch = self._open[-1]
        branch.sides.append(Block([], branch.nodes, list(results)))
        branch.nodes = []
        return branch.nodes

    def leave(
        self, results: Sequence[Argument], traced: Sequence[Value], origin: Origin
    ) -> tuple[list[Node], Sequence[Value]]:
        """End the branch; the list that it lies in, and its results, which the traces have as ``traced``.

        A condition that is the same at every size that was traced is none.
        """
        self.turn(results)
        branch = self._open.pop()
        if not isinstance(branch.condition, Value):
            taken = branch.sides[0 if branch.condition else 1]
            branch.around.extend(taken.nodes)
            return branch.around, taken.outputs
        inputs = {"condition": branch.condition}
        branch.around.append(Node("prim::If", inputs, traced, blocks=branch.sides, **origin))
        return branch.around, traced
