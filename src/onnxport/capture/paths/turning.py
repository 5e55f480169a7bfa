"""Points within the declared ranges at which a condition on sizes turns out otherwise."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.graph.sizes import SizeExpr, leaves_of
from onnxport.graph.sizes.expr import in_order
from onnxport.graph.sizes.numeric import FUNCTIONS, UNDEFINED, Kind, compute

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
    if not _is_of_axes(expression, by_label):
        return
    keep = [(kept, wanted) for kept, wanted in keep if _is_of_axes(kept, start)]
    labels = [leaf.operands[0] for leaf in leaves_of(expression)]
    constants = sorted(_constants(expression))
    choices = {label: list(_candidates(by_label[label], start[label], constants)) for label in labels}
    for count in (1, 2):
        for moved in itertools.combinations(labels, count):
            tried = [choices[label][: SMALL if count > 1 else None] for label in moved]
            sizes = {**start, **dict(zip(moved, np.ix_(*(np.array(column, object) for column in tried)), strict=True))}
            turned = np.broadcast_to(_at(expression, sizes) != outcome, [len(column) for column in tried])
            for kept, wanted in keep:
                if not turned.any():
                    break
                turned = turned & (_at(kept, sizes) == wanted)
            for place in np.argwhere(turned)[:1]:
                yield {**start, **{label: choices[label][index] for label, index in zip(moved, place, strict=True)}}


def _is_of_axes(expression: SizeExpr, labels: Container[str]) -> bool:
    return all(leaf.op == "axis" and leaf.operands[0] in labels for leaf in leaves_of(expression))


def _at(expression: SizeExpr, sizes: Mapping[str, Any]) -> Any:
    """What an expression comes to where axes have these sizes: numbers, or arrays of them along one dimension each."""
    known: dict[int, Any] = {}
    for part in in_order(expression):
        if part.is_leaf:
            known[id(part)] = sizes[part.operands[0]]
        else:
            operands = [known[id(of)] if isinstance(of, SizeExpr) else of for of in part.operands]
            known[id(part)] = _computed(part.op, part.kind, operands)
    return known[id(expression)]


def _computed(op: str, kind: Kind, operands: Sequence[Any]) -> Any:
    """The results of an operator on arrays of Python's numbers, which are broadcast."""
    try:
        results = np.frompyfunc(FUNCTIONS[op], len(operands), 1)(*operands)
        if set(map(type, np.ravel(results))) == {kind}:
            return results
    except UNDEFINED:
        pass
    return np.frompyfunc(functools.partial(compute, op, kind), len(operands), 1)(*operands)


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
