"""Numbers that were others on several sides of the conditions of a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from onnxport.capture.paths.merge import separating
from onnxport.capture.record.record import Call, ConditionKey
from onnxport.graph.sizes import SizeExpr, apply, exact, leaves_of

# So many runs tell which lost expression a number is.
LEAST_SIDES = 3
# And so many, which part of one.
LEAST_FOR_PARTS = 5
# Sizes are not divided by more than this.
LARGEST_DIVISOR = 64


# Outcomes of two conditions.
Combination = frozenset[tuple[ConditionKey, bool]]


@dataclass
class Sides:
    """The runs that a record was merged from: the outcomes of conditions in each, the point that each was made at, and
    the conditions that were seen both ways; combinations of outcomes that no point has."""

    outcomes: list[dict[ConditionKey, bool]] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    both: set[ConditionKey] = field(default_factory=set)
    impossible: set[Combination] = field(default_factory=set)


class Unexplained(Exception):
    """A number that differs between runs in a way that no condition and no lost expression tells."""

    def __init__(self, call: Call, options: Mapping[int, Any], same: Any = None) -> None:
        super().__init__(call.source, options)
        self.call = call
        self.options = options
        self.same = same  # what a further run has to tell apart, where two expressions are left
        self.missing: Combination | None = None  # outcomes of two conditions that no run had together
        self.conditions: Mapping[ConditionKey, Any] = {}  # the expressions of those conditions


class Ambiguous(Exception):
    """Two expressions that a number may be: at some other point they differ."""

    def __init__(self, left: Any, right: Any) -> None:
        super().__init__(left, right)
        self.same = exact("eq", left, right)


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
            self._check_combinations(key, true, false, call)
            return exact("where", self.asked[key], self.choose(true, call), self.choose(false, call))
        explained = self._explained(options, call)
        if explained is None:
            raise Unexplained(call, options)
        return explained

    def _check_combinations(
        self, key: ConditionKey, true: Mapping[int, Any], false: Mapping[int, Any], call: Call
    ) -> None:
        """A condition that matters on one side of another one has to be seen both ways on its other side, too."""
        for outcome, part, others in ((True, true, false), (False, false, true)):
            for other in self._keys(others) | self._related(key):
                seen = {self.sides.outcomes[side].get(other) for side in part}
                found = seen.pop() if len(seen) == 1 else None
                missing = frozenset({(key, outcome), (other, not found)})
                if found is not None and missing not in self.sides.impossible:
                    unexplained = Unexplained(call, {**true, **false})
                    unexplained.missing, unexplained.conditions = missing, self.asked
                    raise unexplained

    def _related(self, key: ConditionKey) -> set[ConditionKey]:
        """The conditions on the same axes that were seen both ways: what they decide may depend on this one."""
        axes = _leaves(self.asked[key])
        return {
            k for k in self.asked if k != key and k in self.sides.both and not axes.isdisjoint(_leaves(self.asked[k]))
        }

    def _keys(self, options: Mapping[int, Any]) -> set[ConditionKey]:
        """The conditions that tell the options of a choice apart."""
        found = separating(options, self.sides.outcomes, list(self.asked))
        if found is None or len({repr(option) for option in options.values()}) == 1:
            return set()
        key, true, false = found
        return {key} | self._keys(true) | self._keys(false)

    def _explained(self, options: Mapping[int, Any], call: Call) -> Any:
        """The lost expression, or the product of two, of which these numbers are a linear function, rounded down."""
        rows = {side: row for side in options if (row := self.sides.rows[side]) is not None}
        if len(rows) < max(len(options), LEAST_SIDES) or any(isinstance(o, SizeExpr) for o in options.values()):
            return None
        lost = list(dict.fromkeys(expression for expression in self.lost if isinstance(expression, SizeExpr)))
        open_: Ambiguous | None = None
        products = [left * right for left, right in itertools.combinations_with_replacement(lost, 2)]
        for expression in (*lost, *products):
            if isinstance(expression, SizeExpr):
                try:
                    found = linear(expression, [(expression.at[row], options[side]) for side, row in rows.items()])
                except Ambiguous as ambiguous:
                    open_ = open_ or ambiguous
                    continue
                if found is not None:
                    return found
        if open_ is not None:
            raise Unexplained(call, options, open_.same)
        return None


def _leaves(expression: Any) -> set[SizeExpr]:
    return set(leaves_of(expression))


def linear(expression: SizeExpr, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """``step * ((factor * expression + offset) // divisor) + first``, if one and only one such function gives these
    pairs of numbers."""
    pairs = sorted(set(pairs))
    (x, y), (far, far_y) = pairs[0], pairs[-1]
    if far == x:
        return None
    if any(type(number) is not int for pair in pairs for number in pair):
        factor = (far_y - y) / (far - x)
        offset = y - factor * x
        fits = all(factor * x + offset == y for x, y in pairs)
        return apply("add", apply("mul", expression, factor), offset) if fits else None
    common = math.gcd(*(number - y for _, number in pairs))
    found = []
    for step in [step for step in range(1, min(common, LARGEST_DIVISOR) + 1) if common % step == 0]:
        for part in _quotients(expression, [(x, (number - y) // step) for x, number in pairs]):
            found.append(apply("add", apply("mul", part, step), y))
    if any(other != found[0] for other in found[1:]):
        raise Ambiguous(found[0], next(other for other in found[1:] if other != found[0]))
    return found[0] if found else None


def _quotients(expression: SizeExpr, pairs: Sequence[tuple[int, int]]) -> list[Any]:
    """The first and the last of the functions ``(factor * expression + offset) // divisor`` that give these pairs."""
    (x, y), (far, far_y) = pairs[0], pairs[-1]
    slope = Fraction(far_y - y, far - x).limit_denominator(LARGEST_DIVISOR)
    factor, divisor = slope.numerator, slope.denominator
    least = max(divisor * y - factor * x for x, y in pairs)
    most = min(divisor * y - factor * x + divisor - 1 for x, y in pairs)
    if least > most or factor == 0:
        return []
    if len(pairs) < (LEAST_SIDES if divisor == 1 else LEAST_FOR_PARTS):
        raise Ambiguous(None, None)
    return [_divided(expression, factor, offset, divisor) for offset in dict.fromkeys((least, most))]


def _divided(expression: SizeExpr, factor: int, offset: int, divisor: int) -> Any:
    return apply("floordiv", apply("add", apply("mul", expression, factor), offset), divisor)
