"""Numbers that were others on several sides of the conditions of a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from onnxport.capture.build.decisions import Split, Step, Tree, follows_axes, is_same, renamed
from onnxport.capture.record.record import Call, Condition, Read
from onnxport.graph.sizes import SizeExpr, apply, exact

# So many runs tell which lost expression a number is.
LEAST_SIDES = 3
# And so many, which part of one.
LEAST_FOR_PARTS = 5
# Sizes are not divided by more than this.
LARGEST_DIVISOR = 64


@dataclass(frozen=True)
class Turned:
    """A condition that turns out otherwise at some points than it did in the run; its number, if it is one on sizes."""

    condition: Condition | Read
    index: int | None = None


@dataclass
class Sides:
    """The runs that a record was merged from: the conditions that tell them apart, and the row that each was made at.

    At the rows ``open`` none of them holds. Conditions of the record that ``part`` it from another side turn.
    """

    tree: Tree = (0,)
    rows: list[int | None] = field(default_factory=list)
    open: Mapping[int, Turned] | None = None
    part: Collection[int] = ()


class Unexplained(Exception):
    """A number that differs between runs in a way that no condition and no lost expression tells."""

    def __init__(self, call: Call, options: Mapping[int, Any], same: Any = None) -> None:
        super().__init__(call.source, options)
        self.call = call
        self.options = options
        self.same = same  # what a further run has to tell apart, where two expressions are left


class Ambiguous(Exception):
    """Two expressions that a number may be: at some other point they differ."""

    def __init__(self, left: Any, right: Any) -> None:
        super().__init__(left, right)
        self.same = exact("eq", left, right)


@dataclass(frozen=True)
class Chooser:
    """What tells the options of a choice apart: the sides, the expressions of the conditions that the record asked
    before by their numbers, the sizes of axes, and the expressions that were lost."""

    sides: Sides
    asked: Mapping[int, Any]
    axes: Mapping[str, SizeExpr]
    lost: Sequence[Any]

    def choose(self, options: Mapping[int, Any], call: Call) -> Any:
        """One expression for all sides: piecewise by the conditions that part them, or one that was lost."""
        return self._choose(self.sides.tree, options, call)

    def _choose(self, tree: Tree, options: Mapping[int, Any], call: Call) -> Any:
        first = next(iter(options.values()))
        if all(is_same(option, first) for option in options.values()):
            return first
        if not isinstance(tree, Split):
            return self._explained(options, call)
        parts = [
            {side: option for side, option in options.items() if tree.steps[side].condition.outcome is outcome}
            for outcome in (True, False)
        ]
        branches = [(branch, part) for branch, part in zip((tree.true, tree.false), parts, strict=True) if part]
        found = [self._choose(branch, part, call) for branch, part in branches]
        if len(found) == 1 or is_same(*found):
            return found[0]
        return exact("where", self._condition(tree.steps, call), *found)

    def _condition(self, steps: Mapping[int, Step], call: Call) -> Any:
        """What parts two sides. A number in it may be one that was lost."""
        first = next(iter(steps.values()))
        if not all(follows_axes(step.expression, self.axes) for step in steps.values()):
            if 0 not in steps or steps[0].index not in self.asked:
                raise Unexplained(call, {side: step.expression for side, step in steps.items()})
            return self.asked[steps[0].index]
        if all(is_same(step.expression, first.expression) for step in steps.values()):
            return renamed(first.expression, self.axes)
        sides = tuple(steps)
        left, right = (
            self._choose(sides, {side: renamed(getattr(steps[side], name), self.axes) for side in sides}, call)
            for name in ("left", "right")
        )
        return exact(first.condition.op, left, right)

    def _explained(self, options: Mapping[int, Any], call: Call) -> Any:
        """The lost expression, or the product of two, of which these numbers are a linear function, rounded down."""
        rows = {side: row for side in options if (row := self.sides.rows[side]) is not None}
        if len(rows) < max(len(options), LEAST_SIDES) or any(isinstance(o, SizeExpr) for o in options.values()):
            raise Unexplained(call, options)
        lost = list(dict.fromkeys(expression for expression in self.lost if isinstance(expression, SizeExpr)))
        same: Any = None
        products = [left * right for left, right in itertools.combinations_with_replacement(lost, 2)]
        for expression in (*lost, *products):
            if isinstance(expression, SizeExpr):
                try:
                    found = linear(expression, [(expression.at[row], options[side]) for side, row in rows.items()])
                except Ambiguous as ambiguous:
                    same = ambiguous.same if same is None else same
                    continue
                if found is not None:
                    return found
        raise Unexplained(call, options, same)


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
