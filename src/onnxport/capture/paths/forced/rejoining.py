"""Where two ways through a model do the same again, up to their ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnxport.capture.paths.forced.forced_runs import Event, ForcedRun, Fork
from onnxport.capture.paths.merge import fixed_arguments, is_alike, is_same_constant
from onnxport.capture.record.record import Call, Decision, Number, Ref, tensors_in
from onnxport.capture.record.recorder import written_tensors
from onnxport.capture.record.traits import traits_of


class CannotMerge(Exception):
    """Ways that cannot be one, with the reason."""


def fork_of(
    way: ForcedRun, index: int, other: ForcedRun, longest: int | None = None, *, unranked: bool = False
) -> Fork:
    """The fork at which another way leaves one, where this condition has the other outcome; of the events at the end
    that they share no more than the ``longest``.

    With ``unranked`` what the model returns may have another number of dimensions on each.
    """
    if len(other.places) <= index or other.places[index] != way.places[index]:
        raise CannotMerge("the calls of the model before it differ between two runs")
    fork = _Tail(way, index, other, unranked).start(longest)
    fork.other = other
    other.origin = fork
    return fork


class _Differ(Exception):
    pass


class _Tail:
    def __init__(self, way: ForcedRun, index: int, other: ForcedRun, unranked: bool) -> None:
        self._unranked = unranked
        self._way, self._other, self._index = way, other, index
        self._made = way.record.decisions[index].made
        self._matches: dict[int, int] = {}
        self._partners: dict[int, set[int | None]] = {}
        self._inside: tuple[set[int], set[int]] = set(), set()
        self._fresh: set[int] = set()  # tensors on memory that no tensor from before the tail shares

    def start(self, longest: int | None) -> Fork:
        count = self._alike() if longest is None else self._outside(longest)
        while True:
            failed = self._first_failure(count)
            if failed is None:
                break
            count = self._outside(count - failed - 1)
        end, other_end = (len(way.events) - count for way in (self._way, self._other))
        return Fork(self._way, self._index, end, other_end, self._matches, self._partners)

    def _alike(self) -> int:
        """How many events at the end may be the same."""
        events, others = self._way.events, self._other.events
        count, most = 0, min(len(events), len(others)) - self._way.places[self._index] - 1
        while count < most and _is_alike(events[-1 - count], others[-1 - count]):
            count += 1
        return self._outside(count)

    def _outside(self, count: int) -> int:
        """Of so many events at the end those that begin outside of all blocks."""
        while count > 0 and any(way.depths[len(way.events) - count] for way in (self._way, self._other)):
            count -= 1
        return count

    def _first_failure(self, count: int) -> int | None:
        """None where so many events at the end are the same, else the place of the last that cannot be."""
        events, others = (way.events[len(way.events) - count :] for way in (self._way, self._other))
        self._matches, self._partners, self._fresh = {}, {}, set()
        self._inside = _made_in(events), _made_in(others)
        for index, pair in enumerate(zip(events, others, strict=True)):
            try:
                self._event(*pair)
            except _Differ:
                return index
        try:
            self._outputs(list(self._way.record.outputs), list(self._other.record.outputs))
        except _Differ:
            if count == 0:
                raise CannotMerge("its two sides return other numbers of tensors, dtypes or dimensions") from None
            return count - 1
        return None

    def _outputs(self, left: list[Any], right: list[Any]) -> None:
        if len(left) != len(right):
            raise _Differ
        for own, other in zip(left, right, strict=True):
            if isinstance(own, Ref) and isinstance(other, Ref):
                self._tensors(own.number, other.number, is_output=self._unranked)
            else:
                self._pair(own, other)

    def _event(self, event: Event, other: Event) -> None:
        if isinstance(event, Decision) or isinstance(other, Decision):
            assert isinstance(event, Decision) and isinstance(other, Decision)
            return self._pair(event.condition, other.condition)
        self._memory(event)
        fixed = fixed_arguments(event.op)
        for index, pair in enumerate(zip(event.args, other.args, strict=True)):
            self._pair(*pair, is_fixed=index in fixed)
        for name, given in event.kwargs.items():
            self._pair(given, other.kwargs[name], is_fixed=name in fixed)
        for left, right in zip(event.results, other.results, strict=True):
            if isinstance(left, Ref) and isinstance(right, Ref):
                self._matches[right.number] = left.number
            elif left is not right:
                raise _Differ
        return None

    def _memory(self, call: Call) -> None:
        """What is written to may be seen through other tensors: not if its memory is of the tail's own making."""
        if not hasattr(call.op, "_schema"):
            return
        written = list(_refs_in(list(written_tensors(call.op, call.args, call.kwargs))))
        moves = torch.Tag.inplace_view in call.op.tags  # to memory that may be another's
        if written and not traits_of(call.op).reviews and (moves or not self._fresh.issuperset(written)):
            raise _Differ
        if self._fresh.issuperset(written or _refs_in((*call.args, *call.kwargs.values()))):
            self._fresh.update(_refs_in(call.results))
        self._fresh.update(self._way.record.new_memory.intersection(_refs_in(call.results)))

    def _pair(self, left: Any, right: Any, is_fixed: bool = False) -> None:
        """Note what an argument is on both ways, if a branch can give it."""
        if isinstance(left, Ref) and isinstance(right, Ref):
            self._tensors(left.number, right.number)
        elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            if len(left) != len(right):
                raise _Differ
            for pair in zip(left, right, strict=True):
                self._pair(*pair, is_fixed=is_fixed)
        elif not _is_same(left, right) and not self._is_one_number(left, right):
            self._numbers(left, right, is_fixed)

    def _is_one_number(self, left: Any, right: Any) -> bool:
        """Whether two numbers are computed in the same way, of tensors that a branch can give."""
        if not isinstance(left, Number) or not isinstance(right, Number) or not is_alike_number(left, right):
            return False
        try:
            for pair in zip(left.operands, right.operands, strict=True):
                self._pair(*pair, is_fixed=True)
        except _Differ:
            return False
        return True

    def _numbers(self, left: Any, right: Any, is_fixed: bool) -> None:
        kinds = {type(part.value if isinstance(part, Number) else part) for part in (left, right)}
        if is_fixed or kinds not in ({int}, {float}):
            raise _Differ
        for part, inside in zip((left, right), self._inside, strict=True):
            if not inside.isdisjoint(tensors_in(part)):
                raise _Differ

    def _tensors(self, left: int, right: int, is_output: bool = False) -> None:
        if self._is_one(left, right):
            self._partners.setdefault(left, set()).add(None)
            return
        if left in self._inside[0] or right in self._inside[1]:
            raise _Differ
        (dtype, shape), (other_dtype, other_shape) = self._way.record.types[left], self._other.record.types[right]
        ranked = not is_output or dtype.is_complex
        if dtype != other_dtype or (ranked and len(shape) != len(other_shape)):
            raise _Differ
        self._partners.setdefault(left, set()).add(right)

    def _is_one(self, left: int, right: int) -> bool:
        if right in self._matches:
            return self._matches[right] == left
        if left == right < self._made:
            return True
        mine, theirs = self._way.record.constants.get(left), self._other.record.constants.get(right)
        if mine is None or theirs is None or not is_same_constant(mine, theirs):
            return False
        self._matches[right] = left
        return True


def _is_alike(event: Event, other: Event) -> bool:
    if isinstance(event, Decision) and isinstance(other, Decision):
        return (event.site, event.outcome) == (other.site, other.outcome)
    if not isinstance(event, Call) or not isinstance(other, Call) or not is_alike(event, other):
        return False
    lengths = [(len(call.args), len(call.results), call.scope) for call in (event, other)]
    return lengths[0] == lengths[1] and event.kwargs.keys() == other.kwargs.keys()


def writes(op: Any) -> bool:
    """Whether a call writes to its arguments."""
    return hasattr(op, "_schema") and traits_of(op).writes


def _refs_in(given: Any) -> Iterator[int]:
    """The tensors of an argument or result themselves, without those that its numbers are sizes of."""
    waiting = [given]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Ref):
            yield current.number
        elif isinstance(current, (list, tuple)):
            waiting += current


def is_alike_number(left: Number, right: Number) -> bool:
    """Whether two numbers are computed in the same way, whatever of."""
    if left.op != right.op or len(left.operands) != len(right.operands) or type(left.value) is not type(right.value):
        return False
    return bool(left.operands) or left.op == "round" or _is_same(left.value, right.value)


def _is_same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if any(isinstance(part, (Number, Ref, torch.Tensor)) for part in (left, right)):
        return False
    return type(left) is type(right) and bool(left == right or (left != left and right != right))


def _made_in(events: Sequence[Event]) -> set[int]:
    calls = [event for event in events if isinstance(event, Call)]
    return {result.number for call in calls for result in call.results if isinstance(result, Ref)}
