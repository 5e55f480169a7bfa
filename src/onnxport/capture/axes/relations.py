"""Finds which of the declared axes can vary, which only together, and which are sums of others.

Some axes are changed by the same step, and the model accepts or refuses these sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.errors import DynamicAxisError

# Axes are changed by every step up to this one: a model with strides or patches accepts multiples of these.
LARGEST_STEP = 64
# None if the model accepts one of some points; else why it accepts none.
Refusal = Callable[[Sequence[Sizes]], Exception | None]


@dataclass
class Relations:
    """The axes that vary, those that do not with the reason, and pairs of names of axes that have to be equal."""

    axes: list[Axis]
    static: list[tuple[Axis, Exception]] = field(default_factory=list)
    equal: list[tuple[str, str]] = field(default_factory=list)

    def check_promises(self) -> None:
        """Raise an error if an axis that is declared with a range cannot vary."""
        for axis, reason in self.static:
            if axis.promised:
                raise DynamicAxisError(
                    f"dynamic_shapes: the model does not accept another size of {axis.label!r}: {reason}"
                )

    def warnings(self) -> Iterator[str]:
        for axis, reason in self.static:
            if not axis.optional:
                yield (
                    f"dynamic_axes: {axis.label!r} is {axis.size} in the file: the model does not accept another size "
                    f"({reason})"
                )
        for left, right in self.equal:
            yield f"dynamic_axes: {left!r} and {right!r} have to be equal; both are {left!r} in the file"


def relations(axes: Sequence[Axis], start: Sizes, refusal: Refusal) -> Relations:
    directions, refusals = _directions(axes, start, refusal)
    return _related(axes, start, directions, refusals)


def _moves(axes: Sequence[Axis], start: Sizes, labels: frozenset[str]) -> list[Sizes]:
    """Points at which these axes are changed by the same step: up to the next multiple, or the next square.

    Not to a size of 1: it is broadcast, so the model would accept it anyway.
    """
    least = min(start[label] for label in labels)
    upwards = range(1, max(LARGEST_STEP, 2 * math.isqrt(least) + 2) + 1)
    steps = [*upwards, *(step for step in (least, 2 * least) if step > upwards[-1]), *range(-1, -least, -1)]
    rows = [{**start, **{label: start[label] + step for label in labels}} for step in steps]
    ranges = {axis.label: axis for axis in axes}
    return [row for row in rows if all(ranges[label].takes(row[label]) and row[label] > 1 for label in labels)]


def _directions(
    axes: Sequence[Axis], start: Sizes, refusal: Refusal
) -> tuple[list[frozenset[str]], dict[str, Exception]]:
    """The smallest sets of axes that can be changed together."""
    tried: dict[frozenset[str], Exception | None] = {}

    def test(sets: Sequence[frozenset[str]]) -> None:
        new = [labels for labels in dict.fromkeys(sets) if labels and labels not in tried]
        for labels in new:
            rows = _moves(axes, start, labels)
            tried[labels] = refusal(rows) if rows else ValueError("its range has one size")

    names = [axis.label for axis in axes]
    test([frozenset({name}) for name in names])
    free = [frozenset({name}) for name in names if tried[frozenset({name})] is None]
    bound = [name for name in names if tried[frozenset({name})] is not None]
    directions = list(free)
    if bound:
        pairs = [frozenset({left, right}) for i, left in enumerate(bound) for right in bound[i + 1 :]]
        test(pairs)
        directions += [pair for pair in pairs if tried[pair] is None]
        covered = {name for direction in directions for name in direction}
        for name in bound:
            if name not in covered:
                found = _smallest(name, [n for n in bound if n not in covered], start, test, tried)
                if found is None and _takes_example(name, axes, start, refusal):
                    found = frozenset({name})
                if found is not None:
                    directions.append(found)
                    covered |= found
    refusals = {name: tried[frozenset({name})] for name in bound}
    return directions, {name: reason for name, reason in refusals.items() if reason is not None}


def _takes_example(name: str, axes: Sequence[Axis], start: Sizes, refusal: Refusal) -> bool:
    """Whether an axis that accepts no other size accepts that of the example, if the start has another one."""
    size = next(axis.size for axis in axes if axis.label == name)
    return size != start[name] and refusal([{**start, name: size}]) is None


def _smallest(
    name: str,
    others: Sequence[str],
    start: Sizes,
    test: Callable[[Sequence[frozenset[str]]], None],
    tried: dict[frozenset[str], Exception | None],
) -> frozenset[str] | None:
    """The smallest set with an axis that can be changed: of the axes equal to it in the example, or of all."""
    alike = frozenset(other for other in others if start[other] == start[name]) | {name}
    test([alike, frozenset(others) | {name}])
    current = next((s for s in (alike, frozenset(others) | {name}) if tried[s] is None), None)
    while current is not None and len(current) > 2:
        smaller = [current - {other} for other in current if other != name]
        test(smaller)
        taken = [labels for labels in smaller if tried[labels] is None]
        if not taken:
            break
        needless = frozenset().union(*(current - labels for labels in taken))
        test([current - needless])
        current = current - needless if tried.get(current - needless, True) is None else taken[0]
    return current


def _related(
    axes: Sequence[Axis], start: Sizes, directions: Sequence[frozenset[str]], refusals: dict[str, Exception]
) -> Relations:
    by_label = {axis.label: axis for axis in axes}
    moves = {axis.label: [d for d in directions if axis.label in d] for axis in axes}
    leads: dict[frozenset[str], str] = {}
    for direction in directions:
        own = [label for label in by_label if label in direction and moves[label] == [direction]]
        leads[direction] = next((label for label in own if by_label[label].named), own[0]) if own else min(direction)
    result = {label: by_label[label] for label in leads.values()}
    found = Relations([])
    for axis in axes:
        if not moves[axis.label]:
            found.static.append((axis, refusals[axis.label]))
        elif axis.label not in result:
            _attach(axis, [leads[d] for d in moves[axis.label]], start, result)
            if axis.named and len(moves[axis.label]) == 1:
                lead = by_label[leads[moves[axis.label][0]]]
                if lead.named and start[lead.label] == start[axis.label]:
                    found.equal.append((lead.label, axis.label))
    found.axes = [result[axis.label] for axis in axes if axis.label in result]
    return found


def _attach(axis: Axis, leads: Sequence[str], start: Sizes, result: dict[str, Axis]) -> None:
    """Express an axis as a sum of axes; its dimensions are added to those of the first of them."""
    first = result[leads[0]]
    offset = start[axis.label] - sum(start[lead] for lead in leads)
    forms = {input_dim: (lambda size, add=offset: size + add) for input_dim in axis.input_dims} if offset else {}
    plus = {input_dim: tuple(leads[1:]) for input_dim in axis.input_dims} if len(leads) > 1 else {}
    result[leads[0]] = replace(
        first,
        input_dims=first.input_dims + axis.input_dims,
        forms={**first.forms, **forms},
        plus={**first.plus, **plus},
        aliases={**first.aliases, **dict.fromkeys(axis.input_dims, axis.label)},
    )
