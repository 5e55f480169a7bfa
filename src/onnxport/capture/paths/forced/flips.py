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
from onnxport.capture.paths.forced.whiles import with_whiles
from onnxport.capture.record.calls.decider import Unending
from onnxport.capture.record.record import ROUNDS, Decision, Outcomes, Record
from onnxport.capture.record.run import Run
from onnxport.graph.ir import Source


class _Unjoined(Apart):
    """Branches that cannot end before the model does."""


class _Loop(Exception):
    """A condition that a loop asks again as long as it has this outcome, while nothing but tensors changes."""

    def __init__(self, site: tuple[Any, ...], goes_on: bool) -> None:
        super().__init__(site)
        self.site, self.goes_on = site, goes_on


Rerun = Callable[[Outcomes], Run]


@dataclass
class Flips:
    """Turns the conditions of one run. ``left`` are those that stay decided, with the reasons."""

    rerun: Rerun
    most: int
    left: dict[tuple[Any, ...], Left] = field(default_factory=dict)
    merged: dict[Source | None, None] = field(default_factory=dict)
    loops: dict[tuple[Any, ...], bool] = field(default_factory=dict)  # their conditions, and how they go on
    runs: int = 0
    exhausted: bool = False  # there are conditions for which no run is left
    whole: bool = False  # what follows a condition is in both of its branches, up to the end

    def joined(self, run: Run) -> Run:
        """The run with both sides of its conditions; the run itself where no condition has two that can be one."""
        left, again = dict(self.left), run
        while True:
            try:
                record = self._joined(again)
            except _Loop as found:
                self.loops[found.site] = found.goes_on
                self.left, self.runs = dict(left), 0
                again = self._rerun(Outcomes(), run)
            except Apart as reason:
                if isinstance(reason, _Unjoined) and not self.whole and not self.exhausted:
                    self.left, self.runs, self.whole = dict(left), 0, True
                    continue
                for asked in run.record.decisions:
                    self.left.setdefault(asked.site, Left(asked.source, not asked.outcome, str(reason)))
                return run
            else:
                return replace(run, record=record)

    def _joined(self, run: Run) -> Record:
        """The record of a run, with the loops that data end, and both sides of all other conditions."""
        if len(run.record.decisions) > self.most:
            raise self._too_many()
        looped = replace(run, record=with_whiles(run.record, self.loops))
        base = Way(looped)
        self._follow(base, 0, len(base.events))
        if self.whole and self.exhausted:
            raise self._too_many()
        record = self._joint(base) if base.forks else looped.record
        self._replay(base, record)
        self._replay_rounds(record)
        self.merged.update(dict.fromkeys(fork.decision.source for fork in _forks(base)))
        self.merged.update(dict.fromkeys(site[0] for site in self.loops))
        return record

    def _joint(self, base: Way) -> Record:
        try:
            return joint(base)
        except Apart as reason:
            raise _Unjoined(str(reason)) from None

    def _rerun(self, outcomes: Outcomes, instead: Run | None = None) -> Run:
        """A run with these outcomes, and as few rounds of loops as tell what they do."""
        try:
            run = self.rerun(replace(outcomes, loops=tuple(self.loops.items())))
        except REFUSALS_ELSEWHERE as error:
            if instead is None or is_ours(error):
                raise
            raise Apart(raised(error)) from None
        return run

    def _replay_rounds(self, record: Record) -> None:
        """Loops that are left at once, after one round and after two do what the record says."""
        for rounds in range(ROUNDS) if self.loops else ():
            then = tuple(
                (site, outcome)
                for site, goes_on in self.loops.items()
                for outcome in [goes_on] * rounds + [not goes_on]
            )
            other = self._run(Outcomes((), then, most=self.most), looped=False)
            if isinstance(other, Run) and not replays(record, other.record):
                raise Apart(f"after {rounds} iterations of the loop the model does something else")

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
            self.exhausted = True
            self._leave(decisions[index], str(self._too_many()))
            return
        self.runs += 1
        before = tuple(decision.outcome for decision in decisions[:index])
        then = tuple((decision.site, decision.outcome) for decision in decisions[index + 1 :])
        turned = not decisions[index].outcome
        again = decisions[index].site, turned
        other = self._run(Outcomes((*before, turned), then, len(decisions) + self.most, again))
        if not isinstance(other, Run):
            asked = decisions[index]
            self.left[asked.site] = Left(asked.source, not asked.outcome, raised(other), raises_itself(other))
            return
        looped = replace(other, record=with_whiles(other.record, self.loops))
        way.forks.append(self._fork(way, index, Way(looped)))

    def _fork(self, way: Way, index: int, other: Way) -> Fork:
        """The fork with the conditions of the other way followed: it ends no earlier than those that begin in it."""
        fork = fork_of(way, index, other, 0 if self.whole else None)
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
            before = tuple(decision.outcome for decision in decisions[:first])
            outcomes = {fork.index: not fork.decision.outcome for fork in turned}
            then = tuple(
                (decision.site, outcomes.get(index, decision.outcome))
                for index, decision in enumerate(decisions)
                if index >= first
            )
            other = self._run(Outcomes(before, then, most=len(decisions) + self.most))
            if isinstance(other, Run) and not replays(record, other.record):
                raise _Unjoined("it and another condition affect each other in a way that could not be recorded")
        for fork in way.forks:
            self._replay(fork.other, record)

    def _run(self, outcomes: Outcomes, *, looped: bool = True) -> Run | BaseException:
        """A run with these outcomes, or what the model raises instead."""
        try:
            return self._rerun(outcomes) if looped else self.rerun(outcomes)
        except Unending as reason:
            if not reason.repeats or outcomes.again is None or outcomes.again[0] != reason.asked.site:
                raise Apart(str(reason)) from None
            raise _Loop(*outcomes.again) from None
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
