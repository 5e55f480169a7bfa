"""Branches and loops in the common graph of several traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from onnxport.capture.reader import ELSE, END_IF, END_LOOP, Record
from onnxport.graph.ir import Argument, Block, Node, ScalarType, Value

Read = tuple[list[Node], Sequence[Argument]]


@dataclass
class _Open:
    """A node that is being read: the list that it lies in, what it is given, and its blocks as far as known."""

    around: list[Node]
    given: Sequence[Argument]
    blocks: list[Block] = field(default_factory=list)


class Branching:
    """The branches and loops around the node that is being read."""

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def read(self, mark: Record, nodes: list[Node], given: Sequence[Argument], traced: Sequence[Value]) -> Read:
        """The list for the nodes behind a mark, and what it gives, which the traces have as ``traced``.

        ``nodes`` is the list for those before it, and ``given`` what it is given.
        """
        if mark.kind == END_IF:
            return self._end_if(mark, given, traced)
        if mark.kind == END_LOOP:
            return self._end_loop(mark, given, traced)
        if mark.kind == ELSE:
            self._open[-1].blocks[-1].outputs = list(given)
        else:
            self._open.append(_Open(nodes, given))
        block = Block(list(traced))
        self._open[-1].blocks.append(block)
        return block.nodes, traced

    def _end_if(self, mark: Record, given: Sequence[Argument], traced: Sequence[Value]) -> Read:
        """A condition that is the same at every size that was traced is none."""
        branch = self._open.pop()
        branch.blocks[-1].outputs = list(given)
        (condition,) = branch.given
        if not isinstance(condition, Value):
            taken = branch.blocks[0 if condition else 1]
            branch.around.extend(taken.nodes)
            return branch.around, taken.outputs
        node = Node("prim::If", {"condition": condition}, traced, blocks=branch.blocks, **mark.origin)
        branch.around.append(node)
        return branch.around, traced

    def _end_loop(self, mark: Record, given: Sequence[Argument], traced: Sequence[Value]) -> Read:
        loop = self._open.pop()
        goes_on, *results = given
        if not isinstance(goes_on, Value):
            goes_on = Value(ScalarType(bool), data=torch.tensor(goes_on))
        loop.blocks[0].outputs = [goes_on, *results]
        condition, *firsts = loop.given
        inputs = {"limit": None, "condition": condition, "carried": firsts}
        loop.around.append(Node("prim::Loop", inputs, traced, blocks=loop.blocks, **mark.origin))
        return loop.around, traced
