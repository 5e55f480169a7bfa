"""Follows the conditions on data of a model: each is flipped once, in a run in which all earlier ones stay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from onnxport.capture.model.refusals import REFUSALS_ELSEWHERE, is_ours
from onnxport.capture.paths.forced.counters import with_counts
from onnxport.capture.paths.forced.forced_runs import ForcedRun, Fork
from onnxport.capture.paths.forced.frozen_conditions import FrozenCondition, raised, raises_itself
from onnxport.capture.paths.forced.last_iterations import MOST_ITERATIONS, shortened
from onnxport.capture.paths.forced.merged_record import joint
from onnxport.capture.paths.forced.python_loops import has_one_end, is_end
from onnxport.capture.paths.forced.rejoining import CannotMerge, fork_of
from onnxport.capture.paths.forced.replay import replays
from onnxport.capture.paths.forced.whiles import CannotFold, begin_by_sizes, counterparts, with_whiles, without_notes
from onnxport.capture.record.calls.decider import Unending, progresses
from onnxport.capture.record.record import RECORDED_ITERATIONS, Decision, Outcomes, Record, Ref, Site
from onnxport.capture.record.run import Run
from onnxport.graph.ir import Source


class TooManyPaths(CannotMerge):
    """More paths than are followed; whether they could be merged is not known."""


class _Unjoined(CannotMerge):
    """Branches that cannot end before the model does."""


class _Loop(Exception):
    """The condition of a loop: it is evaluated again while it has this outcome."""

    def __init__(self, site: Site, goes_on: bool) -> None:
        super().__init__(site)
        self.site, self.goes_on = site, goes_on


# Runs the model with these outcomes, on other data than the example's if some are given.
Rerun = Callable[[Outcomes, Sequence[torch.Tensor] | None], Run]


@dataclass
class Flips:
    """Flips the conditions of one run. ``left`` are those that stay frozen, with the reasons.

    ``other_data`` are further contents of the inputs: with those of the example a loop may have too few iterations.
    """

    rerun: Rerun
    most: int
    unranked: bool = False  # outputs may have other numbers of dimensions on two branches
    other_data: Callable[[], Iterable[Sequence[torch.Tensor]]] = tuple
    left: dict[Site, FrozenCondition] = field(default_factory=dict)
    merged: dict[Source | None, None] = field(default_factory=dict)
    loops: dict[Site, bool] = field(default_factory=dict)  # their conditions, and how they go on
    bounds: dict[Site, int] = field(default_factory=dict)  # how often Python asks conditions of loops that it ends too
    unrolled: dict[Site, str] = field(default_factory=dict)  # loops that cannot be one in the file, with the reasons
    data: Sequence[torch.Tensor] | None = None  # which the runs are made with
    runs: int = 0
    exhausted: bool = False  # there are conditions for which no run is left
    whole: bool = False  # what follows a condition is in both of its branches, up to the end
    finds_loops: bool = True  # whether conditions that are asked again and again are those of loops
    counts_iterations: bool = True  # whether data may decide how many iterations loops over ranges have

    def joined(self, run: Run) -> Run:
        """The run with both branches of its conditions; the run itself if no condition can become a branch."""
        left = dict(self.left)
        self.loops.update((asked.site, True) for asked in run.record.decisions if asked.counts_iterations)
        while True:
            try:
                again = self._looped(len(run.record.decisions) + self.most) if self.loops else run
                return replace(run, record=self._joined(again))
            except _Loop as found:
                self.loops[found.site] = found.goes_on
            except CannotMerge as reason:
                counting = [asked for asked in run.record.decisions if asked.counts_iterations]
                if isinstance(reason, _Unjoined) and not self.whole and not self.exhausted:
                    self._restart(left)
                    self.whole = True
                    continue
                others = [site for site in self.loops if site not in [asked.site for asked in counting]]
                if others:
                    site = reason.site if isinstance(reason, CannotFold) and reason.site in others else others[-1]
                    del self.loops[site]
                    self.unrolled[site] = str(reason)
                else:
                    left = self.left if not counting else left
                    for asked in counting or run.record.decisions:
                        left.setdefault(asked.site, _frozen(asked, reason))
                    if not counting:
                        return run
                    self.loops, self.counts_iterations = {}, False
                    run = self._rerun(Outcomes())
            self._restart(left)

    def _restart(self, left: dict[Site, FrozenCondition]) -> None:
        self.left, self.runs, self.whole, self.exhausted = dict(left), 0, False, False

    def _looped(self, most: int) -> Run:
        """A run in which each loop has the few iterations that are recorded, on data with which they can be made."""
        reason = ""
        for data in (None, *self.other_data()):
            self.data = data
            try:
                return self._rerun(Outcomes(most=most))
            except Unending as error:
                reason = reason or str(error)
            except REFUSALS_ELSEWHERE as error:
                if is_ours(error):
                    raise
                reason = reason or raised(error)
        self.data = None
        raise CannotFold(next(reversed(self.loops)), reason)

    def _joined(self, run: Run) -> Record:
        """The record of a run with the loops that data end, and both branches of all other conditions."""
        self._find_loop(run.record.decisions)
        base = ForcedRun(self._without_loops(run))
        if len(base.record.decisions) - sum(map(self._is_of_loop, base.record.decisions)) > self.most:
            raise self._too_many()
        self._follow(base, 0, len(base.events))
        self._follow_to_ends(base)
        if self.whole and self.exhausted:
            raise self._too_many()
        record = self._joint(base) if base.forks else base.record
        record = with_whiles(record, self.loops, self.left, self._initial(base), self.bounds)
        self._replay(base, record)
        record = self._replay_loops(base, record)
        self.merged.update(dict.fromkeys(fork.decision.source for fork in _forks(base)))
        self.merged.update(dict.fromkeys(site[0] for site in self.loops))
        return record

    def _follow_to_ends(self, base: ForcedRun) -> None:
        """Fork where a loop goes on until Python ends it, for loops with more than one end."""
        several = [site for site in self.loops if site in self.bounds]
        if not several:
            return
        if len(self.loops) > 1:
            raise CannotFold(several[0], "it can end in several ways, and the model has other loops that data end")
        (site,) = several
        asked = [index for index, decision in enumerate(base.record.decisions) if decision.site == site]
        within = base.record.decisions[asked[0] : asked[-1]] if asked else []
        if not asked or any(is_end(decision.source) for decision in within if decision.site != site):
            raise CannotFold(site, "several conditions on data end it, or it is in a branch")
        other = ForcedRun(self._without_loops(self._run_to_end(base, site)))
        index = asked[RECORDED_ITERATIONS]
        fork = fork_of(base, index, other, 0 if self.whole else None, unranked=self.unranked)
        inside = [
            at for way, end in ((base, fork.end), (other, fork.other_end)) for at in way.places if fork.begin < at < end
        ]
        if inside or any(one.begin < fork.begin < one.end for one in base.forks):
            raise CannotFold(site, "what follows its last iteration has other conditions on data")
        base.forks.append(fork)

    def _run_to_end(self, base: ForcedRun, site: Site) -> Run:
        """A run in which a loop goes on until Python ends it, without the iterations in its middle."""
        most = Outcomes((), self._outcomes_of(base), most=MOST_ITERATIONS, iterations=MOST_ITERATIONS)
        try:
            found = self._rerun(most)
            record, self.bounds[site] = shortened(found.record, site)
            return replace(found, record=record)
        except Unending as reason:
            raise CannotFold(site, str(reason)) from None
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            raise CannotFold(site, raised(error)) from None
        except CannotMerge as reason:
            raise CannotFold(site, str(reason)) from None

    def _without_loops(self, run: Run) -> Run:
        """The run without the notes of the conditions of loops, which are conditions of the record's loops."""
        return replace(run, record=without_notes(run.record, list(filter(self._is_of_loop, run.record.decisions))))

    def _is_of_loop(self, asked: Decision) -> bool:
        return asked.site in self.loops

    def _joint(self, base: ForcedRun) -> Record:
        try:
            return joint(base, self.loops)
        except CannotMerge as reason:
            raise _Unjoined(str(reason)) from None

    def _rerun(self, outcomes: Outcomes) -> Run:
        """A run with these outcomes, in which each loop has the few iterations that are recorded."""
        loops = tuple(self.loops.items())
        return self.rerun(replace(outcomes, loops=loops, counts_iterations=self.counts_iterations), self.data)

    def _initial(self, base: ForcedRun) -> dict[int, Ref]:
        """What a run without iterations of loops has behind them in place of tensors that are made in iterations."""
        asked = next(filter(self._is_of_loop, base.record.decisions), None)
        if asked is None:
            return {}
        none = self._run(Outcomes((), self._outcomes_of(base), most=self.most, iterations=0))
        return dict(counterparts(base.record, none.record, asked.made)) if isinstance(none, Run) else {}

    def _replay_loops(self, base: ForcedRun, record: Record) -> Record:
        """The record with the numbers that follow from how many iterations a loop has, as runs with other numbers of
        iterations show them; it is checked against these."""
        others: dict[int, Record] = {}
        for count in range(RECORDED_ITERATIONS) if self.loops else ():
            other = self._run(Outcomes((), self._outcomes_of(base), most=self.most, iterations=count))
            if isinstance(other, Run) and (count or not begin_by_sizes(other.record, self.loops)):
                others[count] = other.record
        record = with_counts(record, others, self.loops)
        for count, run in others.items():
            if not replays(record, run):
                raise CannotMerge(f"after {count} iterations of the loop the model does something else")
        for fork in _forks(base) if self.loops else ():
            once = self._run(Outcomes((), self._outcomes_of(fork.other), most=self.most, iterations=1))
            if isinstance(once, Run) and not replays(record, once.record):
                raise CannotMerge("after 1 iteration of the loop the model does something else")
        return record

    def _outcomes_of(self, way: ForcedRun) -> tuple[tuple[Site, bool], ...]:
        return tuple((asked.site, asked.outcome) for asked in way.record.decisions if not self._is_of_loop(asked))

    def _follow(self, way: ForcedRun, first: int, end: int) -> None:
        """Flip each condition of a forced run from the ``first`` one on that is evaluated before an event."""
        for index in reversed(range(first, len(way.places))):
            if way.places[index] < end and not self._is_of_loop(way.record.decisions[index]):
                self._turn(way, index)

    def _turn(self, way: ForcedRun, index: int) -> None:
        decisions = way.record.decisions
        if way.depths[way.places[index]]:
            reason = CannotMerge("it is asked in a branch, loop or function of torch's")
            self.left[decisions[index].site] = _frozen(decisions[index], reason)
            return
        if self.runs == self.most:
            self.exhausted = True
            self.left[decisions[index].site] = _frozen(decisions[index], self._too_many())
            return
        self.runs += 1
        before = tuple(asked.outcome for asked in decisions[:index] if not self._is_of_loop(asked))
        then = tuple((asked.site, asked.outcome) for asked in decisions[index + 1 :] if not self._is_of_loop(asked))
        turned = not decisions[index].outcome
        again = decisions[index].site, turned
        other = self._run(Outcomes((*before, turned), then, len(decisions) + self.most, again))
        if not isinstance(other, Run):
            asked = decisions[index]
            if self.finds_loops and self._seems_loop(decisions[:index], again) and not raises_itself(other):
                raise _Loop(*again)
            self.left[asked.site] = FrozenCondition(
                asked.source, not asked.outcome, raised(other), raises_itself(other)
            )
            return
        self._find_loop(other.record.decisions)
        way.forks.append(self._fork(way, index, ForcedRun(self._without_loops(other))))

    def _find_loop(self, decisions: Sequence[Decision]) -> None:
        """Raise `_Loop` for a condition that is asked again and again with one outcome, until the last time."""
        for site in dict.fromkeys(
            asked.site for asked in decisions if not asked.counts_iterations and self.finds_loops
        ):
            if site not in self.loops and site not in self.unrolled and _is_repeated(decisions, site):
                raise self._loop(site, next(asked.outcome for asked in decisions if asked.site == site))

    def _loop(self, site: Site, goes_on: bool, *, repeats: bool = False) -> _Loop:
        """The loop of a condition; where it ``repeats`` what it does, nothing of Python's can end it."""
        if not repeats and not has_one_end(site[0]):
            self.bounds[site] = 0
        return _Loop(site, goes_on)

    def _seems_loop(self, before: Sequence[Decision], again: tuple[Site, bool]) -> bool:
        """Whether a condition always had this outcome before, as that of a loop has which data cannot continue."""
        return (
            again[0] not in self.unrolled
            and has_one_end(again[0][0])
            and all(asked.outcome is again[1] for asked in before if asked.site == again[0])
        )

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

    def _too_many(self) -> TooManyPaths:
        return TooManyPaths(f"conditions on data lead to more than {self.most} paths through the model")

    def _replay(self, way: ForcedRun, record: Record) -> None:
        """Check the record against runs in which several conditions, each of which was flipped alone, are flipped."""
        row = [fork for fork in sorted(way.forks, key=lambda fork: fork.begin) if not _is_within(fork, way.forks)]
        turns = [set(row), set(row[::2]), set(row[1::2])] if len(row) > 2 else [set(row)] if len(row) == 2 else []
        for turned in turns:
            decisions = way.record.decisions
            first = 0 if way.origin is None else way.origin.index + 1
            before = tuple(asked.outcome for asked in decisions[:first] if not self._is_of_loop(asked))
            outcomes = {fork.index: not fork.decision.outcome for fork in turned}
            then = tuple(
                (decision.site, outcomes.get(index, decision.outcome))
                for index, decision in enumerate(decisions)
                if index >= first and not self._is_of_loop(decision)
            )
            other = self._run(Outcomes(before, then, most=len(decisions) + self.most))
            if isinstance(other, Run) and not replays(record, other.record):
                raise _Unjoined("it and another condition affect each other in a way that could not be recorded")
        for fork in way.forks:
            self._replay(fork.other, record)

    def _run(self, outcomes: Outcomes) -> Run | BaseException:
        """A run with these outcomes, or the error that the model raises."""
        try:
            return self._rerun(outcomes)
        except Unending as reason:
            again = outcomes.again
            is_new = again is not None and again[0] not in self.unrolled and self.finds_loops
            if again is not None and is_new and (reason.repeats or reason.counts):
                raise self._loop(*again, repeats=reason.repeats) from None
            raise CannotMerge(str(reason) if again is None else self.unrolled.get(again[0], str(reason))) from None
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            return error


def _frozen(asked: Decision, reason: CannotMerge) -> FrozenCondition:
    unexplored = isinstance(reason, TooManyPaths)
    return FrozenCondition(asked.source, not asked.outcome, str(reason), unexplored=unexplored)


def _is_within(fork: Fork, others: Sequence[Fork]) -> bool:
    return any(other.begin < fork.begin < other.end for other in others)


def _forks(way: ForcedRun) -> Iterator[Fork]:
    for fork in sorted(way.forks, key=lambda fork: fork.begin):
        yield fork
        yield from _forks(fork.other)


def _is_repeated(decisions: Sequence[Decision], site: Site) -> bool:
    """Whether a run asks a condition as a loop does, with one outcome until the last time."""
    asked = [decision for decision in decisions if decision.site == site]
    states = [decision.state for decision in asked]
    return (
        len(asked) > RECORDED_ITERATIONS + 1
        and len({decision.outcome for decision in asked[:-1]}) == 1
        and all(itertools.starmap(progresses, zip(states, states[1:], states[2:], strict=False)))
    )
