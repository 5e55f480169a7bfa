"""Merges the graphs of several paths into one graph with an If for each condition that separates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnxport.capture.axes.axis import Sizes
from onnxport.capture.build.choices import Turned
from onnxport.capture.build.decisions import Split, Step, Tree, follows_axes, is_same, renamed
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.coverage import Rows, held_by
from onnxport.capture.paths.further import Alone, FurtherRuns
from onnxport.capture.paths.merge import repeats
from onnxport.capture.paths.path_runs import PathRun, check_data
from onnxport.capture.paths.readings import MOST_POINTS, coincidences
from onnxport.capture.paths.runs import Runs
from onnxport.capture.record.run import input_shapes
from onnxport.errors import DynamicAxisError
from onnxport.graph.branches import CannotMerge, Lifted, NotLifted, joined, lifted, lowered
from onnxport.graph.ir import Block, Graph, TensorType, Value
from onnxport.graph.restrict import restrict
from onnxport.graph.sizes import SizeExpr, leaves_of


@dataclass(frozen=True)
class Branched:
    """The merged graph, the points at which its sizes were evaluated, and the points at which an operator fails."""

    built: Built
    rows: list[Sizes]
    dead: dict[int, Any]


def branched(
    runs: Runs, further: FurtherRuns, built_alone: Callable[[PathRun], Alone], rows: Sequence[Sizes]
) -> Branched | None:
    """The graphs of all paths as one, with an If for each condition on sizes that separates them; None if they cannot
    be merged."""
    open_ = further.open_rows(rows)
    rows = [row for index, row in enumerate(rows) if index not in open_]
    try:
        for _ in range(MOST_POINTS):
            found = _Branching(runs, further, built_alone, rows).run()
            apart = next(coincidences(found.built.graph, runs, rows), None)
            if apart is None:
                return found
            rows = [*rows, apart]
    except (CannotMerge, NotLifted):
        pass
    return None


def at_living_rows(found: Branched, again: Callable[[Sequence[Sizes]], Branched | None]) -> tuple[Built, list[Sizes]]:
    """The branches at the rows at which no operator refuses the sizes; ``again`` makes them at other rows."""
    while found.dead:
        check_data(found.rows, found.dead)
        living = [index for index in range(len(found.rows)) if index not in found.dead]
        kept = [found.rows[index] for index in living]
        if restrict(found.built.graph, living):
            return found.built, kept
        other = again(kept)
        if other is None or any(other.rows[index] in found.rows for index in other.dead):
            line = next(iter(found.dead.values()))
            raise DynamicAxisError(f"{line}: the sizes that the model takes do not tell its paths apart")
        found = other
    return found.built, found.rows


class _Branching:
    def __init__(
        self, runs: Runs, further: FurtherRuns, built_alone: Callable[[PathRun], Alone], rows: list[Sizes]
    ) -> None:
        self._runs = runs
        self._further = further
        self._built_alone = built_alone
        self._rows = rows
        shapes = input_shapes(runs.runner.inputs.tensors, runs.axes, rows)
        self._axes = {leaf.operands[0]: leaf for shape in shapes for size in shape for leaf in leaves_of(size)}
        self._base = built_alone(runs.sides[0])[0]
        given = zip(self._base.graph.block.inputs, shapes, strict=True)
        self._inputs = [Value(TensorType(value.dtype, shape)) for value, shape in given]
        self._parameters = {id(value.data): value for value in self._base.graph.parameters}

    def run(self) -> Branched:
        found = self._joined(self._further.tree())
        block = Block(self._inputs, lowered(found.nodes, self._inputs), found.outputs)
        graph = Graph(block, list(self._parameters.values()), captures=len(self._rows))
        alone = [self._built_alone(side)[0] for side in self._runs.sides]
        frozen = {(read.source, read.how): (read, depends) for built in alone for read, depends in built.frozen}
        warnings = list(dict.fromkeys(warning for built in alone for warning in built.warnings))
        return Branched(Built(graph, self._base.path, [], list(frozen.values()), warnings), self._rows, self._dead())

    def _joined(self, tree: Tree) -> Lifted:
        if not isinstance(tree, Split):
            return self._leaf([self._runs.sides[side] for side in tree])
        condition = self._condition(list(tree.steps.values()))
        source = next(iter(tree.steps.values())).condition.source
        sides = self._joined(tree.true), self._joined(tree.false)
        return joined(condition, *sides, source, unranked=self._runs.runner.unranked)

    def _leaf(self, sides: Sequence[PathRun]) -> Lifted:
        """The graph of paths that no condition separates: they have to compute the same."""
        first, *others = sides
        if not all(repeats(first.run.record, other.run.record) for other in others):
            raise CannotMerge
        graph = self._built_alone(first)[0].graph
        values = dict(zip(graph.block.inputs, self._inputs, strict=True))
        values |= {value: self._parameters.setdefault(id(value.data), value) for value in graph.parameters}
        return lifted(graph, values, self._axes)

    def _condition(self, steps: Sequence[Step]) -> SizeExpr:
        first = steps[0].expression
        if not all(follows_axes(step.expression, self._axes) and is_same(step.expression, first) for step in steps):
            raise CannotMerge
        found = renamed(first, self._axes)
        assert isinstance(found, SizeExpr)
        return found

    def _dead(self) -> dict[int, Any]:
        """The points at which an operator fails on the path that is valid there."""
        dead: dict[int, Any] = {}
        for side, path in zip(self._runs.sides, self._further.paths(), strict=True):
            _, points, rows = self._built_alone(side)
            held = held_by([step for step in path if follows_axes(step.expression, self._axes)], Rows(self._rows))
            for index, reason in points.dead.items():
                if not isinstance(reason, Turned) and rows[index] in self._rows and held[self._rows.index(rows[index])]:
                    dead[self._rows.index(rows[index])] = reason
        return dead
