"""Which further runs of a model tell more: on other sides of conditions, and at other values of lost numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxport.capture.axes.axis import Sizes, shown
from onnxport.capture.build.choices import Combination, Unexplained
from onnxport.capture.build.graph import Built, Turned
from onnxport.capture.build.points import RecordPoints
from onnxport.capture.paths.losses import Losses, further_points, points_of_keys
from onnxport.capture.paths.merge import outcomes
from onnxport.capture.paths.runs import Runs
from onnxport.capture.paths.sides import Side, is_seen, is_seen_alone, shown_line
from onnxport.capture.paths.turning import turning_points
from onnxport.capture.record.record import Condition, ConditionKey
from onnxport.graph.sizes import SizeExpr

# With more runs than this, conditions are not combined further.
MOST_COMBINED = 12
# How many points the model is run at to learn whether it takes one on the other side of a condition.
MOST_TRIED = 3

Conditions = list[tuple[ConditionKey, Condition, Any]]


class FurtherRuns:
    """Adds runs. ``conditions_of`` gives the conditions of a side's record, with their expressions."""

    def __init__(self, runs: Runs, conditions_of: Callable[[Side], Conditions]) -> None:
        self.runs = runs
        self.losses: Losses = ()  # the lost numbers of the last graph
        self.refused_keys: set[ConditionKey] = set()  # conditions that turn only where the model refuses its inputs
        self.impossible: set[Combination] = set()  # outcomes of two conditions that no point has together
        self.notes: list[str] = []
        self._conditions_of = conditions_of
        self._asked: dict[int, Conditions] = {}  # the conditions of each side

    def add_side(self, built: Built, points_of: RecordPoints, rows: Sequence[Sizes]) -> bool:
        """Run the model where a condition of some side turns, if possible alone; whether there was such a point."""
        turned = [(place, dead) for place, dead in points_of.dead.items() if isinstance(dead, Turned)]
        changed = False  # whether a condition turned out to turn only where the model refuses its inputs
        for side in list(self.runs.sides):
            conditions = built.conditions if side is self.runs.sides[0] else self._conditions(side)
            for key, condition, expression in conditions:
                others = [(k, c, e) for k, c, e in conditions if e != expression]
                if key in self.refused_keys or is_seen_alone(self.runs.sides, key, condition, others):
                    continue
                keep = [(e, c.outcome) for _, c, e in others]
                points = list(turning_points(expression, condition.outcome, self.runs.axes, side.stands_for, keep))
                if not points and not is_seen(self.runs.sides, key, condition):
                    keep = [(e, c.outcome) for k, c, e in others if k in self.refused_keys]
                    points = list(turning_points(expression, condition.outcome, self.runs.axes, side.stands_for, keep))
                    points += [rows[place] for place, dead in turned if dead.key == key]
                taken = [other.stands_for for other in self.runs.sides]
                points = [point for point in points if point not in taken]
                if points and self._run_side(key, side, points):
                    return True
                changed |= bool(points)
        return self._add_for_losses(built.losses) or changed

    def explain(self, found: Unexplained) -> bool:
        """Run the model where that tells more of a number that is not explained; whether there is something to try."""
        if found.missing is not None:
            return self._add_combination(found, *found.missing)
        return self._add_apart(found.same) or self._add_for_losses(self.losses, more=True)

    def _conditions(self, side: Side) -> Conditions:
        """The conditions that were asked on a side, with their expressions, if there are others than on the first."""
        if id(side.run) not in self._asked:
            if outcomes(side.run.record).keys() <= outcomes(self.runs.sides[0].run.record).keys():
                return []
            self._asked[id(side.run)] = self._conditions_of(side)
        return self._asked[id(side.run)]

    def _run_side(self, key: ConditionKey, side: Side, points: Sequence[Sizes]) -> bool:
        """Run the model at one of some points at which a condition turns; whether it takes one."""
        refusal: Exception | None = None
        for point in [p for p in points if self.runs.is_bearable(p)][:MOST_TRIED]:
            refusal = self.runs.refused_at(point) or self.runs.run_at(point)
            if refusal is None:
                return True
        if refusal is None:  # the condition turns only where a run would be too large
            refusal = self.runs.force(side, key, points[0])
            if refusal is None:
                return True
        self.refused_keys.add(key)
        self.notes.append(f"{shown_line(key[0])}: sizes such as {shown(points[0])} are refused by the model: {refusal}")
        return False

    def _add_for_losses(self, losses: Losses, *, more: bool = False) -> bool:
        """Run the model where numbers differ whose expression was lost; whether there was such a point.

        Where what they became is not explained, ``more`` of their values are tried.
        """
        ran = self.runs.points
        points = [
            *points_of_keys(losses, self.runs.axes, ran[0]),
            *further_points(losses, self.runs.axes, ran, more=more),
        ]
        return self.runs.add_one_of(points)

    def _add_combination(
        self, found: Unexplained, first: tuple[ConditionKey, bool], second: tuple[ConditionKey, bool]
    ) -> bool:
        """Run the model where two conditions have outcomes that they had not had together, while there are few runs."""
        if len(self.runs.sides) >= MOST_COMBINED:
            self.impossible.add(frozenset((first, second)))
            return True
        for (kept, outcome), (turned, wanted) in ((first, second), (second, first)):
            keep, turn = found.conditions[kept], found.conditions[turned]
            for side in self.runs.sides:
                if isinstance(turn, SizeExpr) and outcomes(side.run.record).get(kept) is outcome:
                    pairs = [(keep, outcome)] if isinstance(keep, SizeExpr) else []
                    points = list(turning_points(turn, not wanted, self.runs.axes, side.stands_for, pairs))
                    if self.runs.add_one_of(points):
                        return True
                    large = [point for point in points if not self.runs.is_bearable(point)]
                    if large and self.runs.force(side, turned, large[0]) is None:
                        return True
        self.impossible.add(frozenset((first, second)))
        return True

    def _add_apart(self, same: Any) -> bool:
        """Run the model where two expressions differ."""
        start = self.runs.sides[0].point
        return isinstance(same, SizeExpr) and self.runs.add_one_of(turning_points(same, True, self.runs.axes, start))
