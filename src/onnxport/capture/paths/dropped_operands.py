"""Conditions with an operand whose expression Python dropped: a plain number that differs between runs.

An example is ``assert n == known`` where ``known`` was computed from ``n`` by a cache or a solver. As a constant it
would make the condition fail at every other size. If runs show that such a number follows from sizes, so does the
condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from onnxport.capture.axes.axis import Sizes
from onnxport.capture.build.choices import Ambiguous, linear
from onnxport.capture.build.decisions import Path, Step
from onnxport.capture.paths.coverage import Rows
from onnxport.graph.sizes import Operand, SizeExpr, apply
from onnxport.graph.sizes.bounds import bounds
from onnxport.graph.sizes.expr import in_order


def with_followed_operands(
    paths: Sequence[Path], points: Sequence[Sizes], candidates: Sequence[SizeExpr]
) -> list[list[Step]]:
    """The paths of runs at these points, with conditions over ``candidates`` where plain numbers in them are a function
    of those. A condition that then always holds is left out."""
    groups: dict[Any, dict[int, Step]] = {}
    for side, path in enumerate(paths):
        for key, step in _numbered(path):
            groups.setdefault(key, {})[side] = step
    found = {key: _followed(steps, points, candidates) for key, steps in groups.items() if _vary(steps)}
    return [list(_replaced(path, found)) for path in paths]


def _numbered(path: Path) -> Iterator[tuple[Any, Step]]:
    """Conditions by line, form, and occurrence."""
    seen: Counter[Any] = Counter()
    for step in path:
        key = (*step.place, _form(step.expression))
        seen[key] += 1
        yield (key, seen[key]), step


def _replaced(path: Path, found: dict[Any, Operand | None]) -> Iterator[Step]:
    for key, step in _numbered(path):
        expression = found.get(key)
        if expression is None:
            yield step
        elif isinstance(expression, SizeExpr):
            yield replace(step, expression=expression)
        elif bool(expression) != step.condition.outcome:
            yield step


def _vary(steps: dict[int, Step]) -> bool:
    return len({tuple(_plain_operands(step.expression)) for step in steps.values()}) > 1


def _followed(steps: dict[int, Step], points: Sequence[Sizes], candidates: Sequence[SizeExpr]) -> Operand | None:
    """The condition over the candidates; None where its plain numbers are no function of one."""
    rows = Rows([points[side] for side in steps])
    columns = zip(*(_plain_operands(step.expression) for step in steps.values()), strict=True)
    numbers = [_explained(column, rows, candidates) for column in columns]
    if any(number is None for number in numbers):
        return None
    return _with_operands(next(iter(steps.values())).expression, numbers)


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
    places: dict[int, int] = {}
    found: list[tuple[Any, ...]] = []
    for part in in_order(expression):
        operands = part.operands if part.is_leaf else [places.get(id(of)) for of in part.operands]
        places[id(part)] = len(found)
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
