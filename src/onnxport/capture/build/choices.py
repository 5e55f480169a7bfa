"""Numbers that were others on several sides of the conditions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxport.capture.paths.merge import ConditionKey, separating
from onnxport.capture.record.record import Call
from onnxport.graph.dims import Dim
from onnxport.graph.sizes import apply, where

# So many runs tell which lost expression a number is.
LEAST_SIDES = 3


@dataclass
class Sides:
    """The runs that a record was merged from: the outcomes of conditions in each, the point that each was made at, and
    the conditions that were seen both ways."""

    outcomes: list[dict[ConditionKey, bool]] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    both: set[ConditionKey] = field(default_factory=set)


class Unexplained(Exception):
    """A number that differs between runs in a way that no condition and no lost expression tells."""

    def __init__(self, call: Call, options: Mapping[int, Any]) -> None:
        super().__init__(call.source, options)
        self.call = call
        self.options = options


@dataclass(frozen=True)
class Chooser:
    """What tells the options of a choice apart: the sides, the expressions of the conditions that were asked before,
    and those that were lost."""

    sides: Sides
    asked: Mapping[ConditionKey, Any]
    lost: Sequence[Any]

    def choose(self, options: Mapping[int, Any], call: Call) -> Any:
        """One expression for all sides: piecewise by a condition, or one that was lost."""
        first = next(iter(options.values()))
        if all(type(option) is type(first) and option == first for option in options.values()):
            return first
        found = separating(options, self.sides.outcomes, list(self.asked))
        if found is not None:
            key, true, false = found
            return where(self.asked[key], self.choose(true, call), self.choose(false, call))
        explained = self._explained(options)
        if explained is None:
            raise Unexplained(call, options)
        return explained

    def _explained(self, options: Mapping[int, Any]) -> Any:
        """The lost expression that gives these numbers on their sides, plus a constant if need be."""
        rows = {side: row for side in options if (row := self.sides.rows[side]) is not None}
        if len(rows) < max(len(options), LEAST_SIDES) or any(isinstance(o, Dim) for o in options.values()):
            return None
        for expression in self.lost:
            if isinstance(expression, Dim):
                offsets = {options[side] - expression.at[row] for side, row in rows.items()}
                if len(offsets) == 1:
                    return apply("add", expression, offsets.pop())
        return None
