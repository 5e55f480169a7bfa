"""Points within the declared ranges at which a condition on sizes turns out otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.graph.sizes import SizeExpr, evaluate_all, leaves_of

# Every size up to this one is tried, and beyond it the neighbours of numbers in the expression and of powers of two.
SMALL = 64
LARGEST = 2**17


def turning_points(
    expression: SizeExpr,
    outcome: bool,
    axes: Sequence[Axis],
    start: Sizes,
    keep: Sequence[tuple[SizeExpr, bool]] = (),
) -> Iterator[Sizes]:
    """Points at which the condition is not ``outcome``, those that change fewest and least from the start first.

    The conditions to ``keep`` have the outcomes there that are given with them.
    """
    by_label = {axis.label: axis for axis in axes}
    leaves = leaves_of(expression)
    if not all(leaf.op == "axis" and leaf.operands[0] in by_label for leaf in leaves):
        return
    labels = [leaf.operands[0] for leaf in leaves]
    constants = sorted(_constants(expression))
    choices = {label: list(_candidates(by_label[label], start[label], constants)) for label in labels}
    for count in (1, 2):
        for moved in itertools.combinations(labels, count):
            rows = list(itertools.product(*(choices[label][: SMALL if count > 1 else None] for label in moved)))
            if rows:
                columns = dict(zip(moved, zip(*rows, strict=True), strict=True))
                place = _first(expression, outcome, keep, start, columns, len(rows))
                if place is not None:
                    yield {**start, **dict(zip(moved, rows[place], strict=True))}


def _first(
    expression: SizeExpr,
    outcome: bool,
    keep: Sequence[tuple[SizeExpr, bool]],
    start: Sizes,
    columns: Mapping[str, Sequence[int]],
    count: int,
) -> int | None:
    """The first of the points at which a condition turns, and those to keep do not."""
    turned = [place for place, found in enumerate(_at(expression, start, columns, count)) if found != outcome]
    for kept, wanted in keep:
        if not turned:
            break
        if all(leaf.op == "axis" and leaf.operands[0] in start for leaf in leaves_of(kept)):
            found = _at(kept, start, columns, count)
            turned = [place for place in turned if found[place] == wanted]
    return turned[0] if turned else None


def _at(expression: SizeExpr, start: Sizes, columns: Mapping[str, Sequence[int]], count: int) -> Sequence[Any]:
    """The outcomes of a condition where some axes have these sizes, and the others those of the start."""
    labels = {leaf: leaf.operands[0] for leaf in leaves_of(expression)}
    found = evaluate_all(expression, {leaf: columns.get(label, start[label]) for leaf, label in labels.items()})
    return found if isinstance(found, Sequence) else [found] * count


def _candidates(axis: Axis, size: int, constants: Sequence[int]) -> Iterator[int]:
    """Sizes of an axis, the nearest to a size first."""
    found = set(range(axis.low, SMALL + 1))
    for number in (*constants, *(2**power for power in range(6, 17)), size, 2 * size):
        found.update((number - 1, number, number + 1))
    for left, right in itertools.product(constants, repeat=2):
        if 0 < left * right <= LARGEST:
            found.update((left * right - 1, left * right, left * right + 1))
    taken = [number for number in found if number != size and number <= LARGEST and axis.takes(number)]
    return iter(sorted(taken, key=lambda number: (number < 2, abs(number - size))))


def _constants(expression: SizeExpr) -> set[int]:
    """The integers in an expression."""
    found: set[int] = set()
    waiting: list[Any] = [expression]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, SizeExpr):
            if not current.is_leaf:
                waiting += current.operands
        elif type(current) in (int, float) and abs(current) <= LARGEST:
            found.add(abs(int(current)))
    return found
