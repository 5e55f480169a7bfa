"""Conditions on data: those of the model's own code are noted, and a run may be told other outcomes than the data's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from onnxport.capture.record.calls.control_flow import read_from
from onnxport.capture.record.record import ATTEMPT, Decision, Number, Outcomes, Record, Ref, leaves
from onnxport.capture.record.source_lines import is_read_by_torch, running_line
from onnxport.errors import CaptureError


class Unending(CaptureError):
    """A run that asks more conditions than it may."""


class Recorder(Protocol):
    record: Record
    scope: str
    writes: list[Any]


class Decider:
    """Tells the conditions of one run their outcomes. Without ``outcomes`` they are what the data say."""

    def __init__(self, recorder: Recorder, outcomes: Outcomes | None) -> None:
        self._recorder = recorder
        self._outcomes = outcomes
        self._content: set[int] = set()  # tensors that the content of inputs decides
        self._followed = 0  # the calls that were looked at for that
        self._next = 0  # the first of ``then`` that was not asked yet

    def compared(self, op: str, left: Any, right: Any, outcome: bool) -> bool:
        """The outcome of a comparison of numbers."""
        if self._outcomes is None or not any(leaf.op in ("item", "element") for leaf in leaves(left, right)):
            return outcome
        if any(isinstance(number, Number) and number.op == ATTEMPT for number in (left, right)):
            return outcome
        return self.decided(Number(outcome, op, (left, right)), outcome)

    def decided(self, condition: Ref | Number, outcome: bool) -> bool:
        record = self._recorder.record
        if self._outcomes is None or self._recorder.writes or is_read_by_torch():
            return outcome
        if not self._depends(condition):
            return outcome
        noted = len(record.reads), len(record.conditions), len(record.losses)
        place = running_line(), self._recorder.scope, len(record.calls), len(record.types), noted
        asked = Decision(condition, outcome, *place)
        told = self._told(asked, self._outcomes)
        record.decisions.append(replace(asked, outcome=told))
        return told

    def _depends(self, condition: Ref | Number) -> bool:
        """Whether the content of an input decides. What calls made is followed as far as the record has got."""
        record = self._recorder.record
        self._content.update(ref.number for ref in record.inputs)
        for call in record.calls[self._followed :]:
            if not self._content.isdisjoint(read_from((call.args, list(call.kwargs.values())))):
                self._content.update(ref.number for ref in call.results if isinstance(ref, Ref))
        self._followed = len(record.calls)
        return not self._content.isdisjoint(read_from(condition))

    def _told(self, asked: Decision, outcomes: Outcomes) -> bool:
        index = len(self._recorder.record.decisions)
        if outcomes.most is not None and index >= outcomes.most:
            raise Unending(f"{asked.source or 'the model'}: no end of the conditions on data is in sight")
        if index < len(outcomes.first):
            return outcomes.first[index]
        for place in range(self._next, len(outcomes.then)):
            site, outcome = outcomes.then[place]
            if site == asked.site:
                self._next = place + 1
                return outcome
        return asked.outcome
