"""Follows the conditions on data of a model: each is flipped once, in a run in which all earlier ones stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onnxport.capture.model.refusals import REFUSALS_ELSEWHERE, is_ours
from onnxport.capture.paths.forced.forced_runs import ForcedRun, Fork
from onnxport.capture.paths.forced.frozen_conditions import FrozenCondition, raised, raises_itself
from onnxport.capture.paths.forced.merged_record import joint
from onnxport.capture.paths.forced.rejoining import CannotMerge, fork_of
from onnxport.capture.paths.forced.replay import replays
from onnxport.capture.paths.forced.whiles import with_whiles
from onnxport.capture.record.calls.decider import Unending
from onnxport.capture.record.record import RECORDED_ITERATIONS, Decision, Outcomes, Record
from onnxport.capture.record.run import Run
from onnxport.graph.ir import Source


class _Unjoined(CannotMerge):
    """Branches that cannot end before the model does."""


class _Loop(Exception):
    """The condition of a loop: it is evaluated again while it has this outcome, and only tensors change in between."""

    def __init__(self, site: tuple[Any, ...], goes_on: bool) -> None:
        super().__init__(site)
        self.site, self.goes_on = site, goes_on


Rerun = Callable[[Outcomes], Run]


@dataclass
class Flips:
    """Flips the conditions of one run. ``left`` are those that stay frozen, with the reasons."""

    rerun: Rerun
    most: int
    unranked: bool = False  # outputs may have other numbers of dimensions on two branches
    left: dict[tuple[Any, ...], FrozenCondition] = field(default_factory=dict)
    merged: dict[Source | None, None] = field(default_factory=dict)
    loops: dict[tuple[Any, ...], bool] = field(default_factory=dict)  # their conditions, and how they go on
    runs: int = 0
    exhausted: bool = False  # there are conditions for which no run is left
    whole: bool = False  # what follows a condition is in both of its branches, up to the end
    counts_iterations: bool = True  # whether data may decide how many iterations loops over ranges have

    def joined(self, run: Run) -> Run:
        """The run with both branches of its conditions; the run itself if no condition can become a branch."""
        left, again = dict(self.left), run
        counting = [asked for asked in run.record.decisions if asked.counts_iterations]
        self.loops.update((asked.site, True) for asked in counting)
        while True:
            try:
                if self.loops:
                    again = self._rerun(Outcomes(), run)
                record = self._joined(again)
            except _Loop as found:
                self.loops[found.site] = found.goes_on
                self.left, self.runs = dict(left), 0
            except CannotMerge as reason:
                if isinstance(reason, _Unjoined) and not self.whole and not self.exhausted:
                    self.left, self.runs, self.whole = dict(left), 0, True
                    continue
                for asked in counting or run.record.decisions:
                    self.left.setdefault(asked.site, FrozenCondition(asked.source, not asked.outcome, str(reason)))
                if not counting:
                    return run
                left, self.loops, self.runs, self.whole = dict(self.left), {}, 0, False
                self.counts_iterations = False
                again = run = self._rerun(Outcomes())
                counting = []
            else:
                return replace(run, record=record)

    def _joined(self, run: Run) -> Record:
        """The record of a run with the loops that data end, and both branches of all other conditions."""
        if len(run.record.decisions) > self.most:
            raise self._too_many()
        looped = replace(run, record=with_whiles(run.record, self.loops))
        base = ForcedRun(looped)
        self._follow(base, 0, len(base.events))
        if self.whole and self.exhausted:
            raise self._too_many()
        record = self._joint(base) if base.forks else looped.record
        self._replay(base, record)
        self._replay_loops(record)
        self.merged.update(dict.fromkeys(fork.decision.source for fork in _forks(base)))
        self.merged.update(dict.fromkeys(site[0] for site in self.loops))
        return record

    def _joint(self, base: ForcedRun) -> Record:
        try:
            return joint(base)
        except CannotMerge as reason:
            raise _Unjoined(str(reason)) from None

    def _rerun(self, outcomes: Outcomes, instead: Run | None = None) -> Run:
        """A run with these outcomes, in which each loop has the few iterations that are recorded."""
        try:
            loops = tuple(self.loops.items())
            run = self.rerun(replace(outcomes, loops=loops, counts_iterations=self.counts_iterations))
        except REFUSALS_ELSEWHERE as error:
            if instead is None or is_ours(error):
                raise
            raise CannotMerge(raised(error)) from None
        return run

    def _replay_loops(self, record: Record) -> None:
        """Check the record against runs in which loops end after no iteration, one and two."""
        for count in range(RECORDED_ITERATIONS) if self.loops else ():
            then = tuple(
                (site, outcome) for site, goes_on in self.loops.items() for outcome in [goes_on] * count + [not goes_on]
            )
            other = self._run(Outcomes((), then, most=self.most), looped=False)
            if isinstance(other, Run) and not replays(record, other.record):
                raise CannotMerge(f"after {count} iterations of the loop the model does something else")

    def _follow(self, way: ForcedRun, first: int, end: int) -> None:
        """Flip each condition of a forced run from the ``first`` one on that is evaluated before an event."""
        for index in reversed(range(first, len(way.places))):
            if way.places[index] < end:
                self._turn(way, index)

    def _turn(self, way: ForcedRun, index: int) -> None:
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
            self.left[asked.site] = FrozenCondition(
                asked.source, not asked.outcome, raised(other), raises_itself(other)
            )
            return
        looped = replace(other, record=with_whiles(other.record, self.loops))
        way.forks.append(self._fork(way, index, ForcedRun(looped)))

    def _fork(self, way: ForcedRun, index: int, other: ForcedRun) -> Fork:
        """A fork with the conditions on its other branch followed. It ends no earlier than those that begin in it."""
        fork = fork_of(way, index, other, 0 if self.whole else None, unranked=self.unranked)
        followed = index
        while True:
            inside = [found.end for found in way.forks if found.begin < fork.end]
            self._follow(other, followed + 1, fork.other_end)
            followed = max([position for position, at in enumerate(other.places) if at < fork.other_end], default=index)
            beyond = [found.end - fork.other_end for found in other.forks] + [end - fork.end for end in inside]
            if max(beyond, default=0) <= 0:
                return fork
            longest = len(way.events) - fork.end - max(beyond)
            fork = fork_of(way, index, other, longest, unranked=self.unranked)

    def _too_many(self) -> CannotMerge:
        return CannotMerge(f"conditions on data lead to more than {self.most} paths through the model")

    def _replay(self, way: ForcedRun, record: Record) -> None:
        """Check the record against runs in which several conditions, each of which was flipped alone, are flipped."""
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
        """A run with these outcomes, or the error that the model raises."""
        try:
            return self._rerun(outcomes) if looped else self.rerun(outcomes)
        except Unending as reason:
            if not reason.repeats or outcomes.again is None or outcomes.again[0] != reason.asked.site:
                raise CannotMerge(str(reason)) from None
            raise _Loop(*outcomes.again) from None
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            return error

    def _leave(self, asked: Decision, reason: str) -> None:
        self.left[asked.site] = FrozenCondition(asked.source, not asked.outcome, reason)


def _is_within(fork: Fork, others: Sequence[Fork]) -> bool:
    return any(other.begin < fork.begin < other.end for other in others)


def _forks(way: ForcedRun) -> Iterator[Fork]:
    for fork in sorted(way.forks, key=lambda fork: fork.begin):
        yield fork
        yield from _forks(fork.other)
