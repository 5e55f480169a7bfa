"""The Python loops over sizes of a record: where they are, and how many calls an iteration of each has."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from onnxport.capture.paths.loops.items import parts_of, with_joined_parts, without_unused_parts
from onnxport.capture.paths.loops.iterations import Iterations
from onnxport.capture.paths.loops.notes import NotALoop
from onnxport.capture.paths.merge import is_alike
from onnxport.capture.record.calls.marks import Mark, are_whole
from onnxport.capture.record.record import Call, Loss, Record, tensors_in
from onnxport.capture.record.tensors.parts import SPLIT, UNBIND, with_single_parts
from onnxport.graph.ir import Source

# From two iterations one cannot see whether a number grows by a constant step.
LEAST_ITERATIONS = 3
# A loop over a part of a list leaves out so many of its items.
MOST_BESIDE = 2


def with_loops(record: Record, lines: Collection[Source | None]) -> Record:
    """The record with the loops that begin on these lines, if they have enough iterations to see what they do."""
    done = 0
    while done < len(record.losses):
        loss = record.losses[done]
        begins = loss.how in ("index", "parts") and loss.source in lines  # range(n), or a tensor taken apart
        if begins and loss.number.value >= LEAST_ITERATIONS:
            if loss.number.op != "length":  # the items of a list are taken one by one, each where it is used
                record = _with_loop(record, loss)
            if loss.how == "parts":
                record = _with_loops_over_parts(record, done)
        done += 1
    return record


def loops(record: Record) -> int:
    """How many loops the record has, by their lines and by how many others they are in."""
    found, depth = set(), 0
    for call in record.calls:
        if call.op is Mark.LOOP:
            found.add((call.source, depth))
        depth += (call.op is Mark.LOOP) - (call.op is Mark.END_LOOP)
    return len(found)


def _with_loop(record: Record, loss: Loss) -> Record:
    start, reasons = loss.after, dict(record.unrolled)
    while True:
        found = _by_fit(_repeated(record.calls, start, loss.number.value), loss.number.value)
        # The first iteration may be given something else: a zero that is broadcast.
        tried = [
            (period, count, before)
            for period, count in found
            for before in ((0, 1) if count > LEAST_ITERATIONS else (0,))
        ]
        for lists, (period, count, before) in itertools.product((False, True), tried):
            try:
                iterations = Iterations(record, start + before * period, period, count - before, lists=lists)
                return _simplified(iterations.as_loop(loss, before, loss.source))
            except NotALoop as reason:
                reasons.setdefault(loss.source, str(reason))
        if start == len(record.calls) or record.calls[start].op not in (UNBIND, SPLIT):
            return replace(record, unrolled=reasons)
        start += 1  # several tensors are taken apart before a loop over all of them


def _simplified(record: Record) -> Record:
    return without_unused_parts(with_single_parts(record))


def _with_loops_over_parts(record: Record, index: int) -> Record:
    """The record with the loops that use a part of what was taken apart in each iteration, wherever they begin."""
    while True:
        loss = record.losses[index]
        found = sorted(_over_parts(record, loss), key=lambda one: -one[-1])
        for lists, (start, period, count) in itertools.product((False, True), found):
            before = loss.number.value - count
            try:
                iterations = Iterations(record, start, period, count, lists=lists)
                record = _simplified(iterations.as_loop(loss, before, record.calls[start].source))
                break
            except NotALoop:
                continue
        else:
            joined = with_joined_parts(record, loss, max(LEAST_ITERATIONS, loss.number.value - MOST_BESIDE))
            if joined is record:
                return record
            record = _simplified(joined)


def _over_parts(record: Record, loss: Loss) -> Iterator[tuple[int, int, int]]:
    """Where calls repeat that use one part after another: the first, how many an iteration has, how many iterations."""
    calls, parts = record.calls, parts_of(record, loss)
    uses = [
        (position, *parts[number])
        for position, call in enumerate(calls[loss.after :], start=loss.after)
        for number in dict.fromkeys(tensors_in([*call.args, *call.kwargs.values()]))
        if number in parts
    ]
    for index, (first, whole, part) in enumerate(uses):
        others = (p for p, of, other in uses[index + 1 :] if of == whole and other != part and p > first)
        second = next((p for p in others if is_alike(calls[first], calls[p])), None)
        if second is None:
            continue
        period = second - first
        for start in range(max(loss.after, first - period + 1), first + 1):
            end = start + period
            while end < len(calls) and is_alike(calls[end], calls[end - period]):
                end += 1
            count = min((end - start) // period, loss.number.value)
            whole_blocks = are_whole(call.op for call in calls[start : start + period])
            if count >= max(LEAST_ITERATIONS, loss.number.value - MOST_BESIDE) and whole_blocks:
                yield start, period, count


def _by_fit(found: Iterable[tuple[int, int]], wanted: int) -> list[tuple[int, int]]:
    """Those that are repeated as often as is wanted first, the longest of them first: what repeats within a body of
    the loop may do so as often."""
    return sorted(found, key=lambda one: (one[1] != wanted, -one[0] if one[1] == wanted else 0))


def _repeated(calls: Sequence[Call], start: int, wanted: int) -> Iterator[tuple[int, int]]:
    """How many calls are made several times one after another, and how often: as often as is wanted, if possible.

    A round of a loop may hold several of another one.
    """
    found: list[tuple[int, int]] = []  # periods, and how far they reach, as their multiples do
    for period in range(1, (len(calls) - start) // LEAST_ITERATIONS + 1):
        if any(period % other == 0 and period <= reach for other, reach in found):
            continue
        end = start + period
        while end < len(calls) and is_alike(calls[end], calls[end - period]):
            end += 1
        most = (end - start) // period
        if most >= LEAST_ITERATIONS and are_whole(call.op for call in calls[start : start + period]):
            found.append((period, end - start))
            counts = [count for count in range(most, LEAST_ITERATIONS - 1, -1) if most % count == 0]
            for count in sorted(counts, key=lambda count: count != wanted):
                yield most // count * period, count
