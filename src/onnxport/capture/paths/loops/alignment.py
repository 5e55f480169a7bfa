"""The branches in the iterations of a loop, with the same results in each.

A branch has the results that calls behind it use. What the next iteration uses, nothing uses of the last one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import Call, Record, Ref


def aligned(record: Record, start: int, period: int, count: int) -> Record:
    """The record with results of branches in the last iteration that those of the iteration before have."""
    calls, types = list(record.calls), list(record.types)
    follows: dict[Ref, Ref] = {}  # what a value is in the next iteration
    middles: list[int] = []  # of the branches around a call of the last iteration
    end = start + (count - 1) * period
    for index in range(start, end):
        then = index + period
        if index >= end - period:
            if calls[then].op is Mark.ELSE:
                middles.append(then)
            elif calls[then].op is Mark.END_IF:
                _complete(calls, types, middles.pop(), then, period, follows)
        made = [[ref for ref in calls[at].results if isinstance(ref, Ref)] for at in (index, then)]
        if len(made[0]) == len(made[1]):
            follows.update(zip(*made, strict=True))
    return replace(record, calls=calls, types=types)


def _complete(calls: list[Call], types: list[Any], middle: int, end: int, period: int, follows: dict[Ref, Ref]) -> None:
    """Give a branch the results of its counterpart in the iteration before, in the same order."""

    def pairs(by: int) -> list[tuple[Ref, Ref]]:
        return list(zip(calls[middle - by].args[0], calls[end - by].args[0], strict=True))

    known = dict(zip(pairs(0), calls[end].results, strict=True))
    wanted = [(follows.get(own, own), follows.get(other, other)) for own, other in pairs(period)]
    if not known.keys() <= set(wanted):
        return
    for pair, ref in zip(wanted, calls[end - period].results, strict=True):
        if pair not in known:
            types.append(types[ref.number])
            known[pair] = Ref(len(types) - 1)
    calls[middle] = replace(calls[middle], args=([own for own, _ in wanted],))
    calls[end] = replace(calls[end], args=([other for _, other in wanted],), results=[known[pair] for pair in wanted])
