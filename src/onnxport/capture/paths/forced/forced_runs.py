"""Runs with forced outcomes of conditions: each forks from another run at one condition, and joins it again later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from onnxport.capture.record.calls.marks import OPENING, Mark, closes
from onnxport.capture.record.record import Call, Decision, Record
from onnxport.capture.record.run import Run

Event: TypeAlias = "Call | Decision"


def events_of(record: Record) -> list[Event]:
    """The calls of a run, with the conditions on data that were evaluated between them."""
    found: list[Event] = []
    waiting = iter(record.decisions)
    decision = next(waiting, None)
    for index in range(len(record.calls) + 1):
        while decision is not None and decision.after == index:
            found.append(decision)
            decision = next(waiting, None)
        found += record.calls[index : index + 1]
    return found


@dataclass(eq=False)
class ForcedRun:
    """A run with the forks at which others leave it. ``origin`` is the fork at which it leaves another run itself."""

    run: Run
    origin: Fork | None = None
    forks: list[Fork] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.record = self.run.record
        self.events = events_of(self.record)
        self.places = [index for index, event in enumerate(self.events) if isinstance(event, Decision)]
        self.depths = list(_depths(self.events))

    @property
    def shared(self) -> int:
        """Tensors with lower numbers are those of the run that it forks from."""
        return 0 if self.origin is None else self.origin.decision.made

    def fork_at(self, index: int) -> Fork | None:
        return next((fork for fork in self.forks if fork.begin == index), None)

    def closed(self, index: int) -> list[Fork]:
        """The forks that end before an event, the inner ones first."""
        found = [fork for fork in self.forks if fork.end <= index]
        return sorted(found, key=lambda fork: (fork.end, -fork.begin))


@dataclass(eq=False)
class Fork:
    """Where another run leaves this one and joins it again: both do the same from ``end`` and ``other_end`` on.

    ``matches`` maps tensors of the other run to those of this one, for what both compute from there on. ``partners``
    maps each tensor that is used there to its counterpart in the other run, None for the same tensor.
    """

    way: ForcedRun
    index: int
    end: int
    other_end: int
    matches: dict[int, int]
    partners: dict[int, set[int | None]]
    other: ForcedRun = field(init=False)

    @property
    def begin(self) -> int:
        return self.way.places[self.index]

    @property
    def decision(self) -> Decision:
        return self.way.record.decisions[self.index]

    def partner(self, number: int) -> int | None:
        """The counterpart of a tensor in the other run, if all uses agree on one."""
        others = self.partners.get(number, set()) - {None}
        return others.pop() if len(others) == 1 else None

    def beside(self, index: int) -> int:
        """The index of the corresponding event in the other run."""
        return self.other_end + index - self.end


def _depths(events: Sequence[Event]) -> Iterator[int]:
    """In how many blocks each event is, and what follows the last."""
    depth = 0
    for event in events:
        op = event.op if isinstance(event, Call) else None
        depth -= closes(op)
        yield depth
        depth += isinstance(op, Mark) and op in OPENING
    yield depth
