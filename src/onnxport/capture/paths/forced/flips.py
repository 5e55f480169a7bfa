"""Follows the conditions on data of a model: each is turned once, in a run in which all others are what they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onnxport.capture.model.refusals import REFUSALS_ELSEWHERE, is_ours
from onnxport.capture.paths.forced.joint import joint
from onnxport.capture.paths.forced.left import Left, raised, raises_itself
from onnxport.capture.paths.forced.replay import replays
from onnxport.capture.paths.forced.tails import Apart, fork_of
from onnxport.capture.paths.forced.ways import Fork, Way
from onnxport.capture.record.calls.decider import Unending
from onnxport.capture.record.record import Decision, Outcomes, Record
from onnxport.capture.record.run import Run
from onnxport.graph.ir import Source

Rerun = Callable[[Outcomes], Run]


@dataclass
class Flips:
    """Turns the conditions of one run. ``left`` are those that stay decided, with the reasons."""

    rerun: Rerun
    most: int
    left: dict[tuple[Any, ...], Left] = field(default_factory=dict)
    merged: dict[Source | None, None] = field(default_factory=dict)
    runs: int = 0

    def joined(self, run: Run) -> Run:
        """The run with both sides of its conditions; the run itself where no condition has two that can be one."""
        base = Way(run)
        try:
            if len(run.record.decisions) > self.most:
                raise self._too_many()
            self._follow(base, 0, len(base.events))
            record = joint(base) if base.forks else run.record
            self._replay(base, record)
        except Apart as reason:
            for asked in run.record.decisions:
                self.left.setdefault(asked.site, Left(asked.source, not asked.outcome, str(reason)))
            return run
        self.merged.update(dict.fromkeys(fork.decision.source for fork in _forks(base)))
        return replace(run, record=record)

    def _follow(self, way: Way, first: int, end: int) -> None:
        """Turn each of the conditions of a way from the first one on that is asked before an event."""
        for index in reversed(range(first, len(way.places))):
            if way.places[index] < end:
                self._turn(way, index)

    def _turn(self, way: Way, index: int) -> None:
        decisions = way.record.decisions
        if way.depths[way.places[index]]:
            self._leave(decisions[index], "it is asked in a branch, loop or function of torch's")
            return
        if self.runs == self.most:
            raise self._too_many()
        self.runs += 1
        told = tuple(decision.outcome for decision in decisions[:index])
        then = tuple((decision.site, decision.outcome) for decision in decisions[index + 1 :])
        outcomes = Outcomes((*told, not decisions[index].outcome), then, most=len(decisions) + self.most)
        other = self._run(outcomes)
        if not isinstance(other, Run):
            asked = decisions[index]
            self.left[asked.site] = Left(asked.source, not asked.outcome, raised(other), raises_itself(other))
            return
        way.forks.append(self._fork(way, index, Way(other)))

    def _fork(self, way: Way, index: int, other: Way) -> Fork:
        """The fork with the conditions of the other way followed: it ends no earlier than those that begin in it."""
        fork = fork_of(way, index, other)
        followed = index
        while True:
            inside = [found.end for found in way.forks if found.begin < fork.end]
            self._follow(other, followed + 1, fork.other_end)
            followed = max([place for place, at in enumerate(other.places) if at < fork.other_end], default=index)
            beyond = [found.end - fork.other_end for found in other.forks] + [end - fork.end for end in inside]
            if max(beyond, default=0) <= 0:
                return fork
            fork = fork_of(way, index, other, len(way.events) - fork.end - max(beyond))

    def _too_many(self) -> Apart:
        return Apart(f"conditions on data lead to more than {self.most} paths through the model")

    def _replay(self, way: Way, record: Record) -> None:
        """Conditions that follow each other were turned one by one: turned together they do what the record says."""
        row = [fork for fork in sorted(way.forks, key=lambda fork: fork.begin) if not _is_within(fork, way.forks)]
        turns = [set(row), set(row[::2]), set(row[1::2])] if len(row) > 2 else [set(row)] if len(row) == 2 else []
        for turned in turns:
            decisions = way.record.decisions
            first = 0 if way.origin is None else way.origin.index + 1
            told = tuple(decision.outcome for decision in decisions[:first])
            outcomes = {fork.index: not fork.decision.outcome for fork in turned}
            then = tuple(
                (decision.site, outcomes.get(index, decision.outcome))
                for index, decision in enumerate(decisions)
                if index >= first
            )
            other = self._run(Outcomes(told, then, most=len(decisions) + self.most))
            if isinstance(other, Run) and not replays(record, other.record):
                raise Apart("what it changes is used by what another condition decides in a way that was not found")
        for fork in way.forks:
            self._replay(fork.other, record)

    def _run(self, outcomes: Outcomes) -> Run | BaseException:
        """A run with these outcomes, or what the model raises instead."""
        try:
            return self.rerun(outcomes)
        except Unending as reason:
            raise Apart(str(reason)) from None
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            return error

    def _leave(self, asked: Decision, reason: str) -> None:
        self.left[asked.site] = Left(asked.source, not asked.outcome, reason)


def _is_within(fork: Fork, others: Sequence[Fork]) -> bool:
    return any(other.begin < fork.begin < other.end for other in others)


def _forks(way: Way) -> Iterator[Fork]:
    for fork in sorted(way.forks, key=lambda fork: fork.begin):
        yield fork
        yield from _forks(fork.other)
