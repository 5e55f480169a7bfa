"""The Python loops over sizes of a record: where they are, and how many calls an iteration of each has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from onnxport.capture.paths.loops.iterations import Iterations
from onnxport.capture.paths.loops.notes import NotALoop
from onnxport.capture.paths.merge import is_alike
from onnxport.capture.record.calls.marks import Mark, are_whole
from onnxport.capture.record.record import Call, Loss, Record
from onnxport.capture.record.tensors.parts import SPLIT, UNBIND, with_single_parts
from onnxport.graph.ir import Source

# From two iterations one cannot see whether a number grows by a constant step.
LEAST_ITERATIONS = 3


def with_loops(record: Record, lines: Collection[Source | None]) -> Record:
    """The record with the loops that begin on these lines, if they have enough rounds to tell what they do."""
    done = 0
    while done < len(record.losses):
        loss = record.losses[done]
        begins = loss.how in ("index", "parts") and loss.source in lines  # range(n), or a tensor taken apart
        if begins and loss.number.value >= LEAST_ITERATIONS:
            record = _with_loop(record, loss)
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
        for period, count in _by_fit(_repeated(record.calls, start, loss.number.value), loss.number.value):
            # The first round may be given something else: a zero that is broadcast.
            for before in (0, 1) if count > LEAST_ITERATIONS else (0,):
                try:
                    iterations = Iterations(record, start + before * period, period, count - before)
                    return with_single_parts(iterations.as_loop(loss, before))
                except NotALoop as reason:
                    reasons.setdefault(loss.source, str(reason))
        if start == len(record.calls) or record.calls[start].op not in (UNBIND, SPLIT):
            return replace(record, unrolled=reasons)
        start += 1  # several tensors are taken apart before a loop over all of them


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
