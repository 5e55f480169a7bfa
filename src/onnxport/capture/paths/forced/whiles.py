"""Loops that data end: of a run in which each has a few iterations, these are one loop of the record."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from onnxport.capture.paths.forced.rejoining import CannotMerge
from onnxport.capture.paths.loops.items import NotALoop
from onnxport.capture.paths.loops.iterations import Iterations
from onnxport.capture.record.record import RECORDED_ITERATIONS, Decision, Number, Record


def with_whiles(record: Record, sites: Collection[tuple[Any, ...]]) -> Record:
    """The record with the loops whose conditions are asked at these sites, outer loops first."""
    record = without_notes(record, [asked for asked in record.decisions if asked.site in sites])
    while True:
        index = next((position for position, asked in enumerate(record.decisions) if asked.site in sites), None)
        if index is None:
            return record
        record = _with_while(record, index, sites)


def _with_while(record: Record, index: int, sites: Collection[tuple[Any, ...]]) -> Record:
    first = record.decisions[index]
    found = [
        position for position, asked in enumerate(record.decisions) if asked.site == first.site and position >= index
    ]
    found = found[: RECORDED_ITERATIONS + 1]
    inside = record.decisions[index : found[-1] + 1]
    if len(found) <= RECORDED_ITERATIONS or any(asked.site not in sites for asked in inside):
        raise CannotMerge("an iteration of the loop has another condition on data")
    asked = [record.decisions[position] for position in found]
    steps = {after.after - before.after for before, after in pairwise(asked)}
    if len(steps) > 1 or 0 in steps:
        raise CannotMerge("the iterations of the loop differ")
    try:
        return Iterations(record, first.after, steps.pop(), RECORDED_ITERATIONS).as_while(found)
    except NotALoop as reason:
        raise CannotMerge(str(reason) or "the iterations of the loop differ") from None


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
