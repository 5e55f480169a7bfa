"""Numbers that differ between the paths of a model: finds one expression for all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from onnxport.capture.build.decisions import Split, Step, Tree, follows_axes, is_same, renamed, splits
from onnxport.capture.record.record import Call, Condition, Read
from onnxport.graph.sizes import SizeExpr, apply, evaluate, exact, leaves_of
from onnxport.graph.sizes.bounds import Bounds, bounds
from onnxport.graph.sizes.canonical import form_of

# The runs needed to match a number with a dropped expression.
LEAST_SIDES = 3
# The runs needed to match it with a quotient of one.
LEAST_FOR_PARTS = 5
# Sizes are not divided by more than this.
LARGEST_DIVISOR = 64
# In ranges up to this size, functions of a number are compared at every value.
MAX_IN_RANGE = 2**10


@dataclass(frozen=True)
class Turned:
    """A condition with another outcome at some points than in the run; its index if it is a condition on sizes."""

    condition: Condition | Read
    index: int | None = None

    def __str__(self) -> str:
        return str(self.condition.source or "the model")


@dataclass
class Sides:
    """The paths that a record was merged from: the conditions that distinguish them, and the point of each run.

    At the points in ``open``, conditions on axes rule out every path. The model takes no points beyond those
    ``outside``, each of which has one size other than in the first run.
    """

    tree: Tree = (0,)
    rows: list[int | None] = field(default_factory=list)
    open: Mapping[int, Turned] | None = None
    outside: Sequence[Mapping[str, int]] = ()
    by_triples: bool = False  # whether the runs have all triples of outcomes of conditions, and not all paths
    # The outcomes of the conditions that each run asks, and equalities of two expressions that no point is known to
    # tell apart, both by their forms over the axes ``leaves``.
    outcomes: Sequence[Mapping[Any, bool]] = ()
    # Where the runs are by triples: the conditions of the record that each run asks, and whether it asks others.
    asking: Sequence[Collection[int]] = ()
    asks_others: bool = False
    agreeing: Collection[Any] = ()
    leaves: Mapping[str, SizeExpr] = field(default_factory=dict)


class Unexplained(Exception):
    """A number that differs between runs in a way that follows from no condition and no dropped expression."""

    def __init__(self, call: Call, options: Mapping[int, Any], same: Any = None) -> None:
        super().__init__(call.source, options)
        self.call = call
        self.options = options
        self.same = same  # the equality of the two expressions that are left, which a further run has to test


class Ambiguous(Exception):
    """Two expressions fit a number; they differ at some other point."""

    def __init__(self, left: Any, right: Any) -> None:
        super().__init__(left, right)
        self.same = exact("eq", left, right)


@dataclass(frozen=True)
class Chooser:
    """Finds the expression for a choice between paths.

    From the paths, the expressions of earlier conditions by their index, the sizes of axes, and dropped expressions.
    """

    sides: Sides
    asked: Mapping[int, Any]
    axes: Mapping[str, SizeExpr]
    dropped: Sequence[Any]

    def choose(self, options: Mapping[int, Any], call: Call) -> Any:
        """One expression for all paths: piecewise by the conditions that separate them, or a dropped one."""
        found = self._separated_by_few(options)
        for other in found[1:] if self.sides.by_triples else ():
            same = exact("eq", found[0], other)
            if isinstance(same, SizeExpr) and self._form(same) not in self.sides.agreeing:
                raise Unexplained(call, options, same)
        if found:
            return found[0]
        return self._explained(options, call) if self.sides.by_triples else self._choose(self.sides.tree, options, call)

    def _choose(self, tree: Tree, options: Mapping[int, Any], call: Call) -> Any:
        first = next(iter(options.values()))
        if all(is_same(option, first) for option in options.values()):
            return first
        if not isinstance(tree, Split):
            return self._explained(options, call)
        found_by_one = self._separated_by_one(tree, options)
        if found_by_one is not None:
            return exact("where", *found_by_one)
        parts = [
            {side: option for side, option in options.items() if tree.steps[side].condition.outcome is outcome}
            for outcome in (True, False)
        ]
        branches = [(branch, part) for branch, part in zip((tree.true, tree.false), parts, strict=True) if part]
        found = [self._choose(branch, part, call) for branch, part in branches]
        if len(found) == 1 or is_same(*found):
            return found[0]
        return exact("where", self._condition(tree.steps, call), *found)

    def _separated_by_few(self, options: Mapping[int, Any]) -> list[Any]:
        """What fits: piecewise by no condition, by one or by two, whatever the others are."""
        asked = {i: e for i, e in self.asked.items() if isinstance(e, SizeExpr) and follows_axes(e, self.axes)}
        if not self.sides.outcomes or (
            self.sides.by_triples and any(self.sides.rows[side] is None for side in options)
        ):
            return []
        conditions = {
            expression: {side: self._outcome(side, index, expression) for side in options}
            for index, expression in asked.items()
        }
        for count in (0,) if self.sides.asks_others else (0, 1, 2):
            groups = itertools.combinations(conditions.items(), count)
            found = [made for group in groups if (made := _piecewise(group, options)) is not None]
            if found:
                return found
        return []

    def _outcome(self, side: int, index: int, condition: SizeExpr) -> bool | None:
        """The outcome of a condition in a run; None if it does not ask it."""
        if not self.sides.by_triples:
            return self.sides.outcomes[side].get(self._form(condition))
        row = self.sides.rows[side]
        return None if row is None or index not in self.sides.asking[side] else bool(condition.at[row])

    def _form(self, expression: SizeExpr) -> Any:
        """Equal for expressions of axes that are computed alike; None for another one."""
        leaves = self.sides.leaves
        return form_of(cast("SizeExpr", renamed(expression, leaves))).key if follows_axes(expression, leaves) else None

    def _separated_by_one(self, tree: Split, options: Mapping[int, Any]) -> tuple[Any, Any, Any] | None:
        """A single condition that separates two options, and both options, if some paths have none.

        The number does not exist on those paths, so the condition may decide it there, too.
        """
        if options.keys() == tree.steps.keys():
            return None
        outcomes: dict[bytes, dict[int, bool]] = {}
        expressions: dict[bytes, Any] = {}
        for side, step in (pair for split in splits(tree) for pair in split.steps.items()):
            if follows_axes(step.expression, self.axes):
                key = form_of(step.expression).key
                outcomes.setdefault(key, {})[side] = step.condition.outcome
                expressions.setdefault(key, step.expression)
        for key, known in outcomes.items():
            parts = [[option for side, option in options.items() if known.get(side) is o] for o in (True, False)]
            whole = all(parts) and sum(map(len, parts)) == len(options)
            if whole and all(is_same(option, part[0]) for part in parts for option in part):
                return renamed(expressions[key], self.axes), parts[0][0], parts[1][0]
        return None

    def _condition(self, steps: Mapping[int, Step], call: Call) -> Any:
        """The condition that separates two sets of paths. A number in it may be a dropped expression."""
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
        """A linear function, rounded down, of a dropped expression or of a product of two, that has these values.

        Of expressions that are a number apart, as those of the round of a loop, it is that number which differs.
        """
        first = next(iter(options.values()))
        if isinstance(first, SizeExpr):
            apart = {side: exact("sub", option, first) for side, option in options.items()}
            if not any(isinstance(number, SizeExpr) for number in apart.values()):
                return exact("add", first, self._explained(apart, call))
        rows = {side: row for side in options if (row := self.sides.rows[side]) is not None}
        if len(rows) < max(len(options), LEAST_SIDES) or any(isinstance(o, SizeExpr) for o in options.values()):
            raise Unexplained(call, options)
        dropped = list(dict.fromkeys(expression for expression in self.dropped if isinstance(expression, SizeExpr)))
        same: Any = None
        products = [left * right for left, right in itertools.combinations_with_replacement(dropped, 2)]
        for expression in (*dropped, *products):
            if isinstance(expression, SizeExpr):
                try:
                    pairs = [(expression.at[row], options[side]) for side, row in rows.items()]
                    found = linear(expression, pairs, self._taken(expression, [x for x, _ in pairs]))
                except Ambiguous as ambiguous:
                    same = ambiguous.same if same is None else same
                    continue
                if found is not None:
                    return found
        raise Unexplained(call, options, same)

    def _taken(self, expression: SizeExpr, seen: Sequence[Any]) -> Bounds:
        """The range of an expression, up to the nearest values to those seen that the model does not take."""
        low, high = bounds(expression)
        leaves = leaves_of(expression)
        if follows_axes(expression, self.axes):
            for point in self.sides.outside:
                value = evaluate(expression, {leaf: point[leaf.operands[0]] for leaf in leaves})
                if value is not None and value > max(seen):
                    high = min(high, value - 1)
                elif value is not None and value < min(seen):
                    low = max(low, value + 1)
        return low, high


def _piecewise(conditions: Sequence[tuple[SizeExpr, Mapping[int, bool | None]]], options: Mapping[int, Any]) -> Any:
    """The options of some runs by the outcomes that conditions have there; None if these do not decide them.

    The option of a run that does not ask a condition is the same for both of its outcomes.
    """
    if not conditions:
        first = next(iter(options.values()))
        return first if all(is_same(option, first) for option in options.values()) else None
    (condition, outcomes), *others = conditions
    parts = [
        {side: option for side, option in options.items() if outcomes[side] in (outcome, None)}
        for outcome in (True, False)
    ]
    found = [_piecewise(others, part) for part in parts if part]
    if any(option is None for option in found):
        return None
    return found[0] if len(found) == 1 or is_same(*found) else exact("where", condition, *found)


def linear(expression: SizeExpr, pairs: Sequence[tuple[Any, Any]], taken: Bounds) -> Any:
    """``step * ((factor * expression + offset) // divisor) + first`` if exactly one such function fits the pairs, of
    those that differ where the expression is in the range ``taken``."""
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
        for factor, offset, divisor in _quotients([(x, (number - y) // step) for x, number in pairs]):
            whole = step if divisor == 1 else 1
            found.append((step // whole, factor * whole, offset * whole, divisor, y))
    functions = _distinct(found, taken)
    if not functions:
        return _periodic(expression, pairs)
    made = [_made(expression, *function) for function in functions[:: max(len(functions) - 1, 1)]]
    if len(made) > 1:
        raise Ambiguous(*made)
    if len(pairs) < (LEAST_SIDES if functions[0][3] == 1 else LEAST_FOR_PARTS):
        raise Ambiguous(None, None)
    return made[0]


def _periodic(expression: SizeExpr, pairs: Sequence[tuple[int, int]]) -> Any:
    """The remainder of the expression by the only number that gives all of the pairs."""
    if len(pairs) < LEAST_FOR_PARTS or min(y for _, y in pairs) < 0:
        return None
    common = math.gcd(*(x - y for x, y in pairs))
    found = [divisor for divisor in range(max(y for _, y in pairs) + 1, common + 1) if common % divisor == 0]
    if len(found) != 1:
        return None
    return apply("mod", expression, found[0])


def _quotients(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Functions ``(factor * x + offset) // divisor`` that fit the pairs: the first and the last of each slope."""
    (x, y), (far, far_y) = pairs[0], pairs[-1]
    for divisor in range(1, LARGEST_DIVISOR + 1):
        lowest, highest = (divisor * (far_y - y + more) for more in (-1, 1))
        for factor in range(lowest // (far - x), highest // (far - x) + 1):
            least = max(divisor * y - factor * x for x, y in pairs)
            most = min(divisor * y - factor * x + divisor - 1 for x, y in pairs)
            if least <= most and factor != 0 and math.gcd(factor, divisor) == 1:
                yield from ((factor, offset, divisor) for offset in dict.fromkeys((least, most)))


def _distinct(functions: Sequence[tuple[int, ...]], taken: Bounds) -> list[tuple[int, ...]]:
    """The functions that differ within a range: the first of those that are alike there."""
    low, high = taken
    if high - low > MAX_IN_RANGE:
        return list(dict.fromkeys(functions))
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for function in functions:
        step, factor, offset, divisor, first = function
        at = tuple(step * ((factor * x + offset) // divisor) + first for x in range(int(low), int(high) + 1))
        found.setdefault(at, function)
    return list(found.values())


def _made(expression: SizeExpr, step: int, factor: int, offset: int, divisor: int, first: int) -> Any:
    quotient = apply("floordiv", apply("add", apply("mul", expression, factor), offset), divisor)
    return apply("add", apply("mul", quotient, step), first)
