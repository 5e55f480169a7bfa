"""Which further runs of a model tell more: on other sides of conditions, and at other values of lost numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes, shown
from onnxport.capture.build.choices import Turned, Unexplained
from onnxport.capture.build.decisions import Path, Tree, follows_axes, renamed, tree_of
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.coverage import Grid, Missing, Rows, grids, missing
from onnxport.capture.paths.losses import Losses, further_points, points_of_keys
from onnxport.capture.paths.runs import Runs
from onnxport.capture.paths.sides import Side, shown_line
from onnxport.capture.paths.turning import turning_points
from onnxport.graph.sizes import SizeExpr, axis


class FurtherRuns:
    """Adds runs. ``built_alone`` gives the graph of a side, with the expressions of its conditions."""

    def __init__(self, runs: Runs, built_alone: Callable[[Side], Built]) -> None:
        self.runs = runs
        self.losses: Losses = ()  # the lost numbers of the last graph
        self.notes: list[str] = []
        self._built_alone = built_alone
        self._known: dict[int, tuple[Path, list[SizeExpr]]] = {}  # by the runs: their conditions, and lost numbers
        self._refused: set[tuple[Any, ...]] = set()  # what is on the other side, where the model refuses its inputs

    # What the runs tell

    def know(self, side: Side, built: Built) -> None:
        """The conditions and lost numbers of a side, as its own graph has them."""
        leaves = _leaves(self.runs.axes)
        # A size in a formatted text is a message nearly always: it costs no run.
        lost = [e for loss, e in built.losses if loss.how != "format" and follows_axes(e, leaves)]
        lost = [renamed(e, leaves) for e in dict.fromkeys(lost)]
        self._known[id(side.run)] = [step.over(leaves) for step in built.path], lost

    def _all_known(self) -> list[tuple[Path, list[SizeExpr]]]:
        for side in self.runs.sides:
            if id(side.run) not in self._known:
                self.know(side, self._built_alone(side))
        return [self._known[id(side.run)] for side in self.runs.sides]

    def paths(self) -> list[Path]:
        return [path for path, _ in self._all_known()]

    def tree(self) -> Tree:
        return tree_of(dict(enumerate(self.paths())))

    def open_rows(self, rows: Sequence[Sizes]) -> dict[int, Turned]:
        """The rows at which no run holds."""
        found = {}
        for one in missing(self._on_sizes(), Rows(rows)) if self.runs.axes else ():
            found.update({rows.index(point): Turned(one.step.condition) for point in one.points})
        return found

    def parting(self) -> set[int]:
        """The conditions of the first side at which others part from it, by their numbers."""
        first, *others = self.paths()
        return {at for at in (_parting(first, other) for other in others) if at is not None}

    def _on_sizes(self) -> list[Path]:
        """The conditions of the runs that follow from the axes."""
        labels = _leaves(self.runs.axes)
        return [[step for step in path if follows_axes(step.expression, labels)] for path in self.paths()]

    # Further ones

    def add_side(self, rows: Sequence[Sizes], dead: Mapping[int, Any]) -> bool:
        """Run the model at a point at which no run holds; whether there was one. At ``dead`` rows a record fails."""
        paths = self._on_sizes()
        for grid in self._grids(paths, rows):
            for one in missing(paths, grid):
                if one.key not in self._refused and self._run_side(one):
                    return True
        return any(one.key not in self._refused and self._run_side(one) for one in self._turned(rows, dead))

    def _grids(self, paths: Sequence[Path], rows: Sequence[Sizes]) -> Iterator[Grid]:
        if self.runs.axes:
            yield from grids(paths, self.runs.axes, self.runs.start)
            yield Rows(rows)

    def _turned(self, rows: Sequence[Sizes], dead: Mapping[int, Any]) -> Iterator[Missing]:
        """Conditions of the first side on sizes that are known at the rows only."""
        places: dict[int, list[Sizes]] = {}
        for place, reason in dead.items():
            if isinstance(reason, Turned) and reason.index is not None:
                places.setdefault(reason.index, []).append(rows[place])
        for index, points in places.items():
            step = self.paths()[0][index]
            yield Missing(0, step, (*step.place, index), points)

    def _run_side(self, one: Missing) -> bool:
        """Run the model where a condition turns, at the nearest point or else far from it; whether it takes one."""
        refusal: Exception | None = None
        ran = [side.stands_for for side in self.runs.sides]
        points = [point for point in one.points if point not in ran]
        bearable = [point for point in points if self.runs.is_bearable(point)]
        known = any(key[-1] == one.key[-1] for key in self._refused)  # the same condition, after others
        for point in bearable[:1] if known else [*bearable[:1], *bearable[1:][-1:]]:
            refusal = self.runs.refused_at(point) or self.runs.run_at(point)
            if refusal is None:
                return True
        if refusal is None and points:  # the condition turns only where a run would be too large
            refusal = self.runs.force(self.runs.sides[one.side], one.step.index, points[0])
            if refusal is None:
                return True
        self._refused.add(one.key)
        where = shown_line(one.step.condition.source)
        self.notes.append(f"{where}: sizes such as {shown(one.points[0])} are refused by the model: {refusal}")
        return False

    def explain(self, found: Unexplained) -> bool:
        """Run the model where that tells more of a number that is not explained; whether there is something to try."""
        return self._add_apart(found.same) or self.add_for_losses(self.losses, more=True)

    def add_for_losses(self, losses: Losses, *, more: bool = False) -> bool:
        """Run the model where numbers differ whose expression was lost; whether there was such a point.

        Where what they became is not explained, ``more`` of their values are tried.
        """
        if self.runs.add_one_of(points_of_keys(losses, self.runs.axes, self.runs.start)):
            return True
        labels = _leaves(self.runs.axes)
        alike: dict[tuple[Any, ...], list[int]] = {}  # the sides of each path
        for side, (path, _) in enumerate(self._all_known()):
            alike.setdefault(tuple((*step.place, step.condition.outcome) for step in path), []).append(side)
        for sides in alike.values():
            path, lost = self._all_known()[sides[0]]
            on_sizes = [step for step in path if follows_axes(step.expression, labels)]
            ran = [self.runs.sides[side].stands_for for side in sides]
            for number in lost:
                if self.runs.add_one_of(further_points(number, on_sizes, self.runs.axes, ran, more=more)):
                    return True
        return False

    def _add_apart(self, same: Any) -> bool:
        """Run the model where two expressions differ, as far away as it can be."""
        axes, start = self.runs.axes, self.runs.start
        if not follows_axes(same, _leaves(axes)):
            return False
        far = Rows(sorted(rows_at.farthest(axes, start), key=lambda point: -sum(point.values())))
        points = [*far.points(~far.values(same)), *turning_points(same, True, axes, start)]
        return self.runs.add_one_of(points)


def _leaves(axes: Sequence[Axis]) -> dict[str, SizeExpr]:
    """The sizes of axes, of whatever values, so that the conditions of all runs can be compared."""
    values = {one.label: [7 * count + 3 * place for count in range(1, 5)] for place, one in enumerate(axes)}
    return {label: axis(label, at) for label, at in values.items()}


def _parting(path: Path, other: Path) -> int | None:
    for step, theirs in zip(path, other, strict=False):
        if step.place != theirs.place:
            return None
        if step.condition.outcome != theirs.condition.outcome:
            return step.index
    return None
