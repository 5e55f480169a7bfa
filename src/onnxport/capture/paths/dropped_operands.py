"""Conditions with an operand whose expression Python dropped: a plain number that differs between runs.

An example is ``assert n == known`` where ``known`` was computed from ``n`` by a cache or a solver. As a constant it
would make the condition fail at every other size. If runs show that such a number follows from sizes, so does the
condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnxport.capture.axes.axis import Sizes
from onnxport.capture.build.choices import Ambiguous, linear
from onnxport.capture.build.decisions import Path, Step
from onnxport.capture.paths.coverage import Rows
from onnxport.graph.sizes import Operand, SizeExpr, apply
from onnxport.graph.sizes.bounds import bounds
from onnxport.graph.sizes.expr import in_order


@dataclass(frozen=True)
class Asked:
    """A condition with the plain numbers in it. ``key`` has its line, its form, and how many like it were asked before
    on a path."""

    key: Any
    step: Step
    plain: tuple[Any, ...]


def asked(path: Path) -> list[Asked]:
    seen: Counter[Any] = Counter()
    found = []
    for step in path:
        key = (*step.place, _form(step.expression))
        seen[key] += 1
        found.append(Asked((key, seen[key]), step, tuple(_plain_operands(step.expression))))
    return found


def with_followed_operands(
    paths: Sequence[Sequence[Asked]], points: Sequence[Sizes], candidates: Sequence[SizeExpr]
) -> list[list[Step]]:
    """The paths of runs at these points, with conditions over ``candidates`` where plain numbers in them are a function
    of those. A condition that then always holds is left out."""
    groups: dict[Any, dict[int, Asked]] = {}
    for side, path in enumerate(paths):
        for one in path:
            groups.setdefault(one.key, {})[side] = one
    varying = {key: group for key, group in groups.items() if len({one.plain for one in group.values()}) > 1}
    found = {key: _followed(group, points, candidates) for key, group in varying.items()}
    return [list(_replaced(path, found)) for path in paths]


def _replaced(path: Sequence[Asked], found: dict[Any, Operand | None]) -> Iterator[Step]:
    for one in path:
        expression = found.get(one.key)
        if expression is None:
            yield one.step
        elif isinstance(expression, SizeExpr):
            yield replace(one.step, expression=expression)
        elif bool(expression) != one.step.condition.outcome:
            yield one.step


def _followed(group: dict[int, Asked], points: Sequence[Sizes], candidates: Sequence[SizeExpr]) -> Operand | None:
    """The condition over the candidates; None where its plain numbers are no function of one."""
    rows = Rows([points[side] for side in group])
    columns = zip(*(one.plain for one in group.values()), strict=True)
    numbers = [_explained(column, rows, candidates) for column in columns]
    if any(number is None for number in numbers):
        return None
    return _with_operands(next(iter(group.values())).step.expression, numbers)


def _explained(column: Sequence[Any], rows: Rows, candidates: Sequence[SizeExpr]) -> Operand | None:
    if len(set(column)) == 1:
        number: Operand = column[0]
        return number
    at_rows = [[int(value) for value in rows.values(candidate)] for candidate in candidates]
    # The identity is the simplest function; further runs at other values may rule it out.
    itself = next((of for of, values in zip(candidates, at_rows, strict=True) if values == list(column)), None)
    if itself is not None:
        return itself
    for candidate, values in zip(candidates, at_rows, strict=True):
        try:
            found = linear(candidate, list(zip(values, column, strict=True)), bounds(candidate))
        except Ambiguous:
            continue
        if found is not None:
            explained: Operand = found
            return explained
    return None


def _form(expression: SizeExpr) -> tuple[Any, ...]:
    """How a condition is computed, whatever the plain numbers in it."""
    indices: dict[int, int] = {}
    found: list[tuple[Any, ...]] = []
    for part in in_order(expression):
        operands = part.operands if part.is_leaf else [indices.get(id(of)) for of in part.operands]
        indices[id(part)] = len(found)
        found.append((part.op, *operands))
    return tuple(found)


def _plain_operands(expression: SizeExpr) -> list[Any]:
    inner = [part for part in in_order(expression) if not part.is_leaf]
    return [of for part in inner for of in part.operands if not isinstance(of, SizeExpr)]


def _with_operands(expression: SizeExpr, numbers: Sequence[Any]) -> Operand:
    """The expression with these in the place of its plain numbers."""
    left = iter(numbers)
    made: dict[int, Operand] = {}
    for part in in_order(expression):
        if part.is_leaf:
            made[id(part)] = part
        else:
            operands = [made[id(of)] if isinstance(of, SizeExpr) else next(left) for of in part.operands]
            made[id(part)] = apply(part.op, *operands)
    return made[id(expression)]
