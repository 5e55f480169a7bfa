"""Which branches of its Ifs a graph takes on some data, to check the file on data that take each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnxport.capture.model.other_data import other_data, redraw
from onnxport.capture.model.refusals import REFUSALS, RefusalsIgnored
from onnxport.graph.interpret import Interpreter, mutates
from onnxport.graph.ir import Block, Graph, Node, Source

# A loop with more iterations than this, on data other than the example's, may never end.
MOST_ITERATIONS = 1000
BRANCH = "prim::If"


class Unending(RuntimeError):
    """A loop that may never end on some data."""


class SidesTaken:
    """The sides of the branches of a graph that were taken so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._branches = [node for node in graph.block.all_nodes() if node.op == BRANCH]
        self._taken: set[tuple[Node, bool]] = set()

    @property
    def are_all(self) -> bool:
        return len(self._taken) == 2 * len(self._branches)

    @property
    def missing(self) -> list[tuple[Source | None, bool]]:
        """The lines of conditions that never had an outcome, with that."""
        pairs = ((node, outcome) for node in self._branches for outcome in (True, False))
        return list(dict.fromkeys((pair[0].source, pair[1]) for pair in pairs if pair not in self._taken))

    def on(self, inputs: Sequence[torch.Tensor]) -> bool | None:
        """Note the sides that are taken on some data; whether one is new, None if the graph does not take the data."""
        run = _Observed(mutates(self._graph.block))
        try:
            with torch.no_grad():
                run.run(self._graph.block, inputs)
        except REFUSALS:
            return None
        is_new = not run.sides <= self._taken
        self._taken |= run.sides
        return is_new

    def candidates(self, example: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        """Data for sides that were not taken yet: like the example, of another sign, larger, smaller, and all alike."""
        drawn = [list(example), *(redraw(example, example, seed, keep_masks=True) for seed in range(2))]
        for tensors in drawn:
            for factor in (1, -1, 10, -10, 0.1, -0.1, 0):
                yield [t * factor if t.is_floating_point() else t for t in tensors]
            for sign in (1, -1):
                yield [t.abs() * sign if t.is_floating_point() else t for t in tensors]
        yield from other_data(example, example)

    def new(self, example: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        """Data that take sides which none before took."""
        for tensors in self.candidates(example):
            if self.are_all:
                return
            with RefusalsIgnored():
                if self.on(tensors):
                    yield tensors


class _Observed(Interpreter):
    """A run that notes which branches it takes."""

    def __init__(self, mutates: bool) -> None:
        super().__init__(mutates)
        self.sides: set[tuple[Node, bool]] = set()

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        if node.op == BRANCH:
            self.sides.add((node, bool(arguments["condition"])))
        return super().step(node, arguments)

    def _loop(self, body: Block, limit: Any, condition: Any, carried: list[Any]) -> list[Any]:
        iterations = 0
        while condition and (limit is None or iterations < int(limit)):
            if limit is None and iterations == MOST_ITERATIONS:
                raise Unending
            condition, *carried = self.block(body, [iterations, *carried])
            iterations += 1
        return carried
