"""Conditions on data: those of the model's own code are noted, and may have other outcomes than the data give."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from types import FrameType
from typing import Any

from onnxport.capture.record.handlers import CALLERS
from onnxport.capture.record.record import (
    ATTEMPT,
    Decision,
    Number,
    Outcomes,
    Ref,
    Site,
    leaves,
    read_from,
)
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import IS_USERS, is_read_by_torch, running_line
from onnxport.errors import CaptureError


class Unending(CaptureError):
    """A run that asks more conditions than it may. It ``repeats`` what it does if nothing but tensors changes; it
    ``counts`` if, besides, numbers and the lengths of lists grow by constant steps."""

    def __init__(self, asked: Decision, repeats: bool, counts: bool) -> None:
        super().__init__("no end of the conditions on data is in sight")
        self.asked, self.repeats, self.counts = asked, repeats, counts


class Decider:
    """Decides the conditions of one run. Without ``outcomes`` the data decide."""

    def __init__(self, recorder: Recording, outcomes: Outcomes | None) -> None:
        self._recorder = recorder
        self._outcomes = outcomes
        self._content: set[int] = set()  # tensors that the content of inputs decides
        self._followed = 0  # the calls that were looked at for that
        self._asked = 0  # conditions so far that are not those of loops
        self._rounds: dict[Site, int] = {}  # of loops, so far
        self._next = 0  # the first of ``then`` that was not asked yet

    def may_turn(self, *numbers: Any) -> bool:
        """Whether the content of inputs decides on numbers, in a run in which it may decide otherwise."""
        outcomes = self._outcomes
        if outcomes is None or not outcomes.counts_iterations or self._recorder.writes or is_read_by_torch():
            return False
        if running_line() in outcomes.counted:
            return True
        found = [number for number in numbers if isinstance(number, Number)]
        return _reads_content(*found) and any(map(self._depends, found))

    def compared(self, op: str, left: Any, right: Any, outcome: bool, *, counts_iterations: bool = False) -> bool:
        """The outcome of a comparison of numbers."""
        if self._outcomes is None:
            return outcome
        reads = _reads_content(left, right)
        is_counted = not reads and running_line() in self._outcomes.counted
        if not reads and not is_counted:
            return outcome
        if any(isinstance(number, Number) and number.op == ATTEMPT for number in (left, right)):
            return outcome
        condition = Number(outcome, op, (left, right))
        return self.decided(condition, outcome, is_counted=is_counted, counts_iterations=counts_iterations)

    def decided(
        self,
        condition: Ref | Number,
        outcome: bool,
        *,
        is_counted: bool = False,
        counts_iterations: bool = False,
    ) -> bool:
        record = self._recorder.record
        if self._outcomes is None or self._recorder.writes or is_read_by_torch():
            return outcome
        if not is_counted and not self._depends(condition):
            return outcome
        noted = len(record.reads), len(record.conditions), len(record.losses)
        index = running_line(), self._recorder.scope, len(record.calls), len(record.types), noted
        asked = Decision(condition, outcome, *index, _state(sys._getframe(1)), counts_iterations)
        wanted = self._wanted(asked, self._outcomes)
        record.decisions.append(replace(asked, outcome=wanted))
        return wanted

    def _depends(self, condition: Ref | Number) -> bool:
        """Whether the content of an input decides. What calls made is followed as far as the record has got."""
        record = self._recorder.record
        self._content.update(ref.number for ref in record.inputs)
        for call in record.calls[self._followed :]:
            if not self._content.isdisjoint(read_from((call.args, list(call.kwargs.values())))):
                self._content.update(ref.number for ref in call.results if isinstance(ref, Ref))
        self._followed = len(record.calls)
        return not self._content.isdisjoint(read_from(condition))

    def _wanted(self, asked: Decision, outcomes: Outcomes) -> bool:
        self._check_end(asked, outcomes)
        for site, goes_on in outcomes.loops:
            if site == asked.site:
                iterations = self._rounds.get(site, 0)
                self._rounds[site] = iterations + 1 if iterations < outcomes.iterations else 0
                return goes_on is (iterations < outcomes.iterations)
        index = self._asked
        self._asked += 1
        if index < len(outcomes.first):
            return outcomes.first[index]
        for position in range(self._next, len(outcomes.then)):
            site, outcome = outcomes.then[position]
            if site == asked.site:
                self._next = position + 1
                return outcome
        if outcomes.again is not None and outcomes.again[0] == asked.site:
            return outcomes.again[1]
        return self._as_before(asked) if any(self._rounds.values()) else asked.outcome

    def _as_before(self, asked: Decision) -> bool:
        """The outcome that a condition in a loop had before in this run: iterations are alike."""
        decisions = self._recorder.record.decisions
        return next((earlier.outcome for earlier in decisions if earlier.site == asked.site), asked.outcome)

    def _check_end(self, asked: Decision, outcomes: Outcomes) -> None:
        decisions = self._recorder.record.decisions
        if outcomes.most is not None and len(decisions) >= outcomes.most:
            site = asked.site if outcomes.again is None else outcomes.again[0]
            states = [decision.state for decision in (*decisions, asked) if decision.site == site]
            enough = len(states) > 2
            raise Unending(asked, enough and states[-2] == states[-1], enough and progresses(*states[-3:]))


def _reads_content(*numbers: Any) -> bool:
    return any(leaf.op in ("item", "element") for leaf in leaves(*numbers))


def _state(frame: FrameType | None) -> tuple[Any, ...]:
    """What the variables of the user's code hold besides tensors, as far as it can be compared."""
    found = []
    while frame is not None and frame.f_code.co_filename not in CALLERS:
        if IS_USERS[frame.f_code.co_filename]:
            found.append((frame.f_code, tuple((name, _held(value)) for name, value in frame.f_locals.items())))
        frame = frame.f_back
    return tuple(found)


def _held(value: Any) -> Any:
    if type(value) in (int, float, bool, str):
        return value
    return (id(type(value)), len(value)) if type(value) in (list, tuple, dict, set) else id(type(value))


def progresses(first: Any, second: Any, third: Any) -> bool:
    """Whether states are equal, but for numbers that grow by a constant step."""
    if first == second == third:
        return True
    kinds = {type(state) for state in (first, second, third)}
    if kinds == {tuple}:
        same = len(first) == len(second) == len(third)
        return same and all(itertools.starmap(progresses, zip(first, second, third, strict=True)))
    return kinds in ({int}, {float}) and bool(second - first == third - second)
