"""Follows the conditions on data of a model: each is turned once, in a run in which all others are what they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from onnxport.capture.model.refusals import REFUSALS_ELSEWHERE, is_ours
from onnxport.capture.paths.forced.joint import joint
from onnxport.capture.paths.forced.tails import Apart, fork_of
from onnxport.capture.paths.forced.ways import Fork, Way
from onnxport.capture.record.calls.decider import Unending
from onnxport.capture.record.record import Decision, Outcomes, Record
from onnxport.capture.record.run import Run

Rerun = Callable[[Outcomes], Run]


class TooMany(Apart):
    """More ways than are followed."""


@dataclass
class Flips:
    """Turns the conditions of one run. ``left`` are those that stay decided, with the reasons."""

    rerun: Rerun
    most: int
    left: dict[tuple[object, ...], str] = field(default_factory=dict)
    runs: int = 0

    def joined(self, run: Run) -> Run:
        """The run with both sides of its conditions; the run itself where no condition has two that can be one."""
        base = Way(run)
        try:
            self._follow(base, 0, len(base.events))
            record = joint(base) if base.forks else run.record
        except Apart as reason:
            for decision in run.record.decisions:
                self.left.setdefault(decision.site, str(reason))
            record = run.record
        return replace(run, record=self._told(record))

    def _follow(self, way: Way, first: int, end: int) -> None:
        """Turn each of the conditions of a way from the first one on that is asked before an event."""
        for index in reversed(range(first, len(way.places))):
            if way.places[index] < end:
                self._turn(way, index)

    def _turn(self, way: Way, index: int) -> None:
        decisions = way.record.decisions
        if way.depths[way.places[index]]:
            self.left[decisions[index].site] = "it is asked in a branch, loop or function of torch's"
            return
        if self.runs == self.most:
            raise TooMany(f"conditions on data lead to more than {self.most} paths through the model")
        self.runs += 1
        told = tuple(decision.outcome for decision in decisions[:index])
        then = tuple((decision.site, decision.outcome) for decision in decisions[index + 1 :])
        outcomes = Outcomes((*told, not decisions[index].outcome), then, most=len(decisions) + self.most)
        try:
            other = self.rerun(outcomes)
        except Unending as reason:
            raise Apart(str(reason)) from None
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
            self.left[decisions[index].site] = f"on the other side the model raises {type(error).__name__}: {error}"
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

    def _told(self, record: Record) -> Record:
        return record


__all__ = ["Decision", "Flips"]
