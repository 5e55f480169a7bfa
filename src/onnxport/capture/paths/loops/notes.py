"""What Python read and compared in the iterations of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onnxport.capture.record.record import Record, follows_iteration
from onnxport.graph.ir import Source


class NotALoop(Exception):
    """Calls that repeat, but are not the iterations of one loop; the message is for the user."""


def check_between(record: Record, start: int, period: int, count: int) -> None:
    """Check that Python read no content in the iterations, and compared sizes with the same outcomes in each."""
    end = start + count * period
    for read in record.reads:
        if start < read.after < end:
            raise NotALoop(f"{read.source}: Python reads the content of a tensor in an iteration")
    notes: list[tuple[int, Source | None, tuple[Any, ...]]] = []
    notes += [(loss.after, loss.source, (loss.number,)) for loss in record.losses]
    notes += [(c.after, c.source, (c.left, c.right)) for c in record.conditions]
    for after, source, numbers in notes:
        if start < after <= end and follows_iteration(*numbers):
            raise NotALoop(f"{source}: Python compares the index of the iteration, or looks something up by it")
    asked: list[list[Any]] = [[] for _ in range(count)]
    for condition in record.conditions:
        if start < condition.after <= end:
            number = (condition.after - start - 1) // period
            asked[number].append((condition.source, condition.op, condition.outcome))
    if any(other != asked[0] for other in asked[1:-1]):
        raise NotALoop("a condition on sizes has another outcome in some iterations")


def moved(notes: Sequence[Any], first: int, span: tuple[int, int, int], length: int, begins: int) -> list[Any]:
    """Notes at their new positions, with a loop of this length, whose body ``begins`` calls precede.

    The ``span`` is where the first iteration begins and ends, and the last ends. At the beginning of the loop, those
    from the ``first`` one on belong into it."""
    start, first_end, end = span
    found = []
    for index, note in enumerate(notes):
        if note.after < start or (note.after == start and index < first):
            found.append(note)
        elif note.after >= end:
            found.append(replace(note, after=note.after - end + start + length))
        elif note.after <= first_end:
            found.append(replace(note, after=note.after + begins))
    return found
