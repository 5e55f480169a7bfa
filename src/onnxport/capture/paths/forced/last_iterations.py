"""Loops that data end, or Python after so many iterations: a run to that end, without the iterations in its middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from onnxport.capture.paths.forced.rejoining import CannotMerge
from onnxport.capture.record.record import RECORDED_ITERATIONS, Call, Number, Record, Ref, Site, rewritten

# In a run with more iterations of a loop no end of it is in sight.
MOST_ITERATIONS = 2**12


def shortened(record: Record, site: Site) -> tuple[Record, int]:
    """A run in which the condition at a site always has the outcome that goes on, with as many iterations as others
    have; and how often that condition was asked.

    What is behind the loop uses values of its last iterations, which are those of the iterations that are left.
    """
    asked = [decision.after for decision in record.decisions if decision.site == site]
    steps = {after - before for before, after in pairwise(asked)}
    if len(asked) <= RECORDED_ITERATIONS + 1 or len(steps) > 1 or 0 in steps:
        raise CannotMerge("the iterations of the loop differ")
    return _Shortened(record, asked[0], steps.pop(), len(asked) - 1).record(), len(asked)


class _Shortened:
    def __init__(self, record: Record, start: int, period: int, count: int) -> None:
        self._record, self._start = record, start
        self._kept = start + RECORDED_ITERATIONS * period  # the first call that is left out
        self._behind = start + count * period
        self._gone = self._behind - self._kept
        self._same: dict[int, Ref | None] = {}  # what stands for values of the last iterations, None for earlier ones
        for index in range(self._kept, self._behind):
            earlier = index - self._gone
            results = record.calls[earlier].results if earlier >= start else []
            self._same.update((ref.number, None) for ref in record.calls[index].results if isinstance(ref, Ref))
            last = index >= self._behind - RECORDED_ITERATIONS * period
            if last:
                pairs = zip(record.calls[index].results, results, strict=True)
                self._same.update((ref.number, other) for ref, other in pairs if isinstance(ref, Ref))
        first = range(start, self._kept)
        early = first if count >= 2 * RECORDED_ITERATIONS else ()
        self._same.update((ref.number, None) for i in early for ref in record.calls[i].results if isinstance(ref, Ref))

    def record(self) -> Record:
        record = self._record
        calls = [*record.calls[: self._kept], *(self._moved(call) for call in record.calls[self._behind :])]
        found = replace(record, calls=calls, outputs=[self._argument(leaf) for leaf in record.outputs])
        kinds: list[tuple[str, Sequence[Any]]] = [
            ("reads", record.reads), ("conditions", record.conditions), ("losses", record.losses),
        ]  # fmt: skip
        kept = {name: [self._is_kept(note.after) for note in notes] for name, notes in kinds}
        for name, notes in kinds:
            left = [self._note(note) for note, is_kept in zip(notes, kept[name], strict=True) if is_kept]
            setattr(found, name, left)
        found.decisions = [
            replace(
                self._note(decision),
                noted=tuple(sum(kept[name][:count]) for (name, _), count in zip(kinds, decision.noted, strict=True)),
            )
            for decision in record.decisions
            if self._is_kept(decision.after)
        ]
        return found

    def _is_kept(self, after: int) -> bool:
        return after < self._kept or after >= self._behind

    def _note(self, note: Any) -> Any:
        if note.after < self._behind:
            return note
        names = ("of", "number", "left", "right", "condition")
        given = {name: self._argument(getattr(note, name)) for name in names if hasattr(note, name)}
        return replace(note, after=note.after - self._gone, **given)

    def _moved(self, call: Call) -> Call:
        kwargs = {name: self._argument(given) for name, given in call.kwargs.items()}
        return replace(call, args=tuple(map(self._argument, call.args)), kwargs=kwargs)

    def _argument(self, given: Any) -> Any:
        if isinstance(given, Ref):
            return self._ref(given)
        if isinstance(given, Number):
            return rewritten(given, self._ref, _made)
        if isinstance(given, (list, tuple)):
            return type(given)([self._argument(part) for part in given if not self._is_early(part)])
        return given

    def _is_early(self, given: Any) -> bool:
        """Whether this is an element of a list, of an iteration that is left out."""
        return isinstance(given, Ref) and self._same.get(given.number, given) is None

    def _ref(self, ref: Ref) -> Ref:
        found = self._same.get(ref.number, ref)
        if found is None:
            raise CannotMerge("what is behind the loop uses an iteration before the last ones")
        return found


def _made(number: Number, operands: tuple[Any, ...]) -> Number:
    same = all(one is other for one, other in zip(operands, number.operands, strict=True))
    return number if same else Number(number.value, number.op, operands)
