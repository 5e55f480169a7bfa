"""Loops that data end: of a run in which each has a few iterations, these are one loop of the record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from onnxport.capture.paths.forced.frozen_conditions import FrozenCondition
from onnxport.capture.paths.forced.rejoining import CannotMerge
from onnxport.capture.paths.loops.iterations import Iterations
from onnxport.capture.paths.loops.notes import NotALoop
from onnxport.capture.paths.merge import is_alike
from onnxport.capture.record.record import (
    RECORDED_ITERATIONS,
    Decision,
    Number,
    Record,
    Ref,
    Site,
    read_from,
    tensors_in,
)


class CannotFold(CannotMerge):
    """The iterations of the loop whose condition is asked at a site are no loop, with the reason."""

    def __init__(self, site: Site, reason: str) -> None:
        super().__init__(reason)
        self.site = site


def with_whiles(
    record: Record,
    sites: Collection[Site],
    frozen: Mapping[Site, FrozenCondition],
    initial: Mapping[int, Ref],
    bounds: Mapping[Site, int],
) -> Record:
    """The record with the loops whose conditions are asked at these sites, outer loops first.

    ``frozen`` are other conditions that stay as the example decides them. ``initial`` has what tensors that are used
    behind loops are where these have no iteration. ``bounds`` tells how often Python asks some of the conditions.
    """
    for asked in record.decisions if sites else ():
        if asked.site in frozen and not frozen[asked.site].refuses and _is_inside(asked, record, sites):
            raise CannotMerge(f"a loop that data end has another condition on data that is frozen, {asked.source}")
    record = replace(record, decisions=[asked for asked in record.decisions if asked.site in sites])
    while record.decisions:
        record = _with_while(record, initial, bounds)
    return record


def _is_inside(asked: Decision, record: Record, sites: Collection[Site]) -> bool:
    """Whether a condition is asked between two evaluations of the condition of a loop."""
    index = next(index for index, other in enumerate(record.decisions) if other is asked)
    before, behind = (
        {other.site for other in part if other.site in sites}
        for part in (record.decisions[:index], record.decisions[index:])
    )
    return not before.isdisjoint(behind)


def _with_while(record: Record, initial: Mapping[int, Ref], bounds: Mapping[Site, int]) -> Record:
    first = record.decisions[0]
    found = [index for index, asked in enumerate(record.decisions) if asked.site == first.site]
    found = found[: RECORDED_ITERATIONS + 1]
    asked = [record.decisions[index] for index in found]
    steps = {after.after - before.after for before, after in pairwise(asked)}
    if len(found) <= RECORDED_ITERATIONS or len(steps) > 1 or 0 in steps:
        raise CannotFold(first.site, "the iterations of the loop differ")
    initial = {**dict(_pairs(asked[-1].condition, asked[0].condition)), **initial}
    try:
        return Iterations(record, first.after, steps.pop(), RECORDED_ITERATIONS, initial).as_while(
            found, bounds.get(first.site)
        )
    except NotALoop as reason:
        raise CannotFold(first.site, str(reason) or "the iterations of the loop differ") from None


def without_notes(record: Record, asked: Sequence[Decision]) -> Record:
    """The record without what it tells of these conditions; what was noted between them stays in its place."""
    reads = {decision.noted[0] - 1 for decision in asked if not isinstance(decision.condition, Number)}
    conditions = {decision.noted[1] for decision in asked if isinstance(decision.condition, Number)}
    gone = [sorted(reads), sorted(conditions), []]

    def moved(decision: Decision) -> Decision:
        noted = [count - sum(index < count for index in gone[kind]) for kind, count in enumerate(decision.noted)]
        return replace(decision, noted=(noted[0], noted[1], noted[2]))

    return replace(
        record,
        reads=[read for index, read in enumerate(record.reads) if index not in reads],
        conditions=[condition for index, condition in enumerate(record.conditions) if index not in conditions],
        decisions=[moved(decision) for decision in record.decisions],
    )


def counterparts(run: Record, other: Record, made: int) -> Iterator[tuple[int, Ref]]:
    """What one run uses at the end in place of tensors of another that do the same there, of the ``made`` first ones
    that both have."""
    pairs: list[tuple[Any, Any]] = [(list(run.outputs), list(other.outputs))]
    for call, then in zip(reversed(run.calls), reversed(other.calls), strict=False):
        if not is_alike(call, then):
            break
        pairs.append(([*call.args, *call.kwargs.values()], [*then.args, *then.kwargs.values()]))
    for pair in pairs:
        yield from ((number, ref) for number, ref in _pairs(*pair) if number >= made > ref.number)


def _pairs(mine: Any, theirs: Any) -> Iterator[tuple[int, Ref]]:
    """The tensors at the same places of two arguments."""
    pairs = [(mine, theirs)]
    while pairs:
        mine, theirs = pairs.pop()
        if isinstance(mine, Ref) and isinstance(theirs, Ref):
            yield mine.number, theirs
        elif isinstance(mine, Number) and isinstance(theirs, Number):
            pairs += zip(mine.operands, theirs.operands, strict=False)
        elif isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
            pairs += zip(mine, theirs, strict=False)


def begin_by_sizes(record: Record, sites: Collection[Site]) -> bool:
    """Whether sizes that no data decide tell that each loop has an iteration; other sizes are checked."""
    made = {ref.number: call for call in record.calls for ref in call.results if isinstance(ref, Ref)}
    firsts = {asked.site: asked.condition for asked in reversed(record.decisions) if asked.site in sites}
    waiting: list[int] = []
    for condition in firsts.values():
        if not isinstance(condition, Number) or any(read_from(condition)):
            return False
        waiting += tensors_in(condition)
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current not in seen and current in made:
            waiting += tensors_in([*made[current].args, *made[current].kwargs.values()])
        seen.add(current)
    return seen.isdisjoint(record.counted)
