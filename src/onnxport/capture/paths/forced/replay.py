"""Compares a record with branches and loops with a run: the calls have to be those along the run's outcomes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from onnxport.capture.paths.forced.rejoining import is_alike_number, writes
from onnxport.capture.paths.loops.conditions import LOGICAL_NOT
from onnxport.capture.paths.merge import WITHOUT_COUNT, is_same_constant
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import (
    TENSOR_OF,
    Call,
    Number,
    Record,
    Ref,
    follows_iteration,
    leaves,
    rewritten,
)

# A call of a record, or the end of it, and where among its arguments or outputs.
Place: TypeAlias = "tuple[int, tuple[int, ...]]"


class _Other(Exception):
    """The run has other calls than the record."""


def replays(record: Record, run: Record) -> bool:
    """Whether a record with branches describes this run, too."""
    replay = _Replay(record, run)
    try:
        replay.walk(0, len(record.calls))
        replay.end()
    except _Other:
        return False
    return True


def differences(record: Record, run: Record) -> dict[Place, tuple[Any, Any]] | None:
    """The plain numbers and constants behind loops of a record that are others in a run; None if it does something
    else besides."""
    replay = _Replay(record, run)
    replay.differences = {}
    try:
        replay.walk(0, len(record.calls))
        replay.end()
    except _Other:
        return None
    return replay.differences


class _Replay:
    def __init__(self, record: Record, run: Record) -> None:
        self._record, self._run = record, run
        self._next = 0  # the call of the run that comes next
        self._decided = 0  # and the condition
        self._refs = {mine.number: theirs for mine, theirs in zip(record.inputs, run.inputs, strict=True)}
        self._written: dict[int, Ref] = {}  # results of in-place calls of the run: the tensor that they wrote to
        self._negations: dict[int, Ref] = {}  # conditions that end a loop where they hold
        self._numbers: dict[int, Any] = {}  # numbers that are tensors so that they can be results of a branch
        self._indices: dict[int, int] = {}  # the iteration that each loop is in, by the number that stands for it
        self.differences: dict[Place, tuple[Any, Any]] | None = None  # if they are looked for
        self._places: dict[int, Place] = {}  # where a branch has the constant that it gives
        self._filled: dict[int, Call] = {}  # tensors of numbers that follow from how many iterations a loop has
        self._counts_known = False  # whether a loop has ended
        self._counts: dict[int, int] = {}  # how many iterations loops had, by the tensor that says so
        self._inside = 0  # how many loops are around the current call
        self._lists: dict[int, list[Any]] = {}  # what each iteration of a loop made

    def walk(self, index: int, end: int) -> None:
        while index < end:
            call = self._record.calls[index]
            if call.op in (Mark.IF, Mark.LOOP) and not self._is_next(call):
                index = self._branch(index) if call.op is Mark.IF else self._loop(index)
                continue
            if call.op == TENSOR_OF and not self._is_next(call):
                self._filled[call.results[0].number] = call
                self._numbers[call.results[0].number] = self._seen(call.args[0][0])
            elif call.op is LOGICAL_NOT and not self._is_next(call):
                self._negations[call.results[0].number] = call.args[0]
            else:
                self._call(call, index)
            index += 1

    def end(self) -> None:
        outputs = list(self._record.outputs), list(self._run.outputs)
        if self.differences is not None:
            outputs = self._without_differences(len(self._record.calls), *outputs)
        if self._next != len(self._run.calls) or not self._is_same(*outputs):
            raise _Other

    def _is_next(self, call: Call) -> bool:
        """Whether this is the next call of the run."""
        made = self._run.calls[self._next : self._next + 1]
        return bool(made) and made[0].op == call.op and self._has_same_arguments(call, made[0])

    def _without_differences(self, index: int, mine: Any, theirs: Any) -> tuple[Any, Any]:
        """Arguments without those plain numbers and constants that differ, which are noted."""
        assert self.differences is not None
        kept: tuple[list[Any], list[Any]] = [], []
        waiting = [((place,), *pair) for place, pair in reversed(list(enumerate(zip(mine, theirs, strict=False))))]
        while waiting:
            path, own, other = waiting.pop()
            if isinstance(own, (list, tuple)) and isinstance(other, (list, tuple)) and len(own) == len(other):
                waiting += [((*path, place), *pair) for place, pair in enumerate(zip(own, other, strict=True))]
                continue
            place = index, path
            if isinstance(own, Ref) and own.number in self._places:
                place = self._places[own.number]
                own = self._record.calls[place[0]].args[0][place[1][1]]
            elif isinstance(own, Number) and own.op == "item" and own.operands[0].number in self._places:
                place = self._places[own.operands[0].number]
                own = self._record.constants[self._record.calls[place[0]].args[0][place[1][1]].number]
                other = torch.tensor(other, dtype=own.dtype) if type(other) in (int, float) else other
            plain = [self._plain(own, self._record), self._plain(other, self._run)]
            if None in plain or type(plain[0]) is not type(plain[1]) or self._is_same(own, other):
                kept[0].append(own)
                kept[1].append(other)
            else:
                self.differences[place] = plain[0], plain[1]
        return kept if len(mine) == len(theirs) else (mine, theirs)

    def _plain(self, given: Any, of: Record) -> Any:
        """A plain number, or a constant; None for anything else."""
        if isinstance(given, Ref):
            return of.constants.get(given.number)
        return given if isinstance(given, torch.Tensor) or type(given) in (int, float) else None

    def _call(self, call: Call, index: int) -> None:
        if self._next == len(self._run.calls):
            raise _Other
        made = self._run.calls[self._next]
        self._next += 1
        if self.differences is not None and not self._inside and made.op == call.op != TENSOR_OF and self._counts_known:
            args, others = self._without_differences(index, call.args, made.args)
            own, theirs = replace(call, args=tuple(args)), replace(made, args=tuple(others))
            self._compare(own, theirs)
        else:
            self._compare(call, made)

    def _compare(self, call: Call, made: Call) -> None:
        if made.op != call.op or not self._has_same_arguments(call, made) or call.kwargs.keys() != made.kwargs.keys():
            raise _Other
        if not all(self._is_same(given, made.kwargs[name]) for name, given in call.kwargs.items()):
            raise _Other
        if writes(made.op) and made.results and isinstance(made.args[0], Ref) and isinstance(made.results[0], Ref):
            self._written[made.results[0].number] = self._memory(made.args[0])
        for mine, theirs in zip(call.results, made.results, strict=True):
            if isinstance(mine, Ref):
                self._refs[mine.number] = theirs

    def _has_same_arguments(self, call: Call, made: Call) -> bool:
        if call.op == TENSOR_OF and any(isinstance(number, Ref) for number in call.args[0]):
            (numbers, _, dtype), (others, _, other) = call.args, made.args  # the length follows from the list
            return dtype is other and self._is_same(numbers, others)
        return self._is_same(call.args, made.args)

    def _branch(self, begin: int) -> int:
        """Walk the branch that the run took; returns the index after both."""
        calls = self._record.calls
        middle, end = _marks(calls, begin)
        is_first = self._outcome(calls[begin]) is (calls[begin].args[1] == 0)
        start, stop = (begin + 1, middle) if is_first else (middle + 1, end)
        self.walk(start, stop)
        pairs = zip(calls[end].results, calls[stop].args[0], strict=True)
        for position, (result, given) in enumerate(pairs):
            self._pass_on(result.number, given.number, (stop, (0, position)))
        return end + 1

    def _loop(self, begin: int) -> int:
        """Walk the iterations that the run made; returns the index after the loop."""
        calls = self._record.calls
        end = _end_of_loop(calls, begin)
        given, asking = calls[begin].args[1], calls[begin]
        listed = calls[end].args[2] if len(calls[end].args) > 2 else []
        lists: list[list[Any]] = [[] for _ in listed]
        self._inside += 1
        for iteration in itertools.count():
            passed = [self._refs.get(ref.number) or self._constant(ref.number) for ref in given]
            decided, most = self._decided, calls[begin].kwargs.get("most")
            if iteration == most or not self._goes_on(calls[begin], asking, iteration):
                # The condition is asked once more where Python may have ended the loop.
                self._decided = self._decided if most is None else decided
                break
            if "index" in calls[begin].kwargs:
                self._indices[id(calls[begin].kwargs["index"])] = iteration
            for entry, ref in zip(calls[begin].results, passed, strict=True):
                self._refs[entry.number] = ref
            self.walk(begin + 1, end)
            for elements, ref in zip(lists, listed, strict=True):
                elements.append(self._numbers[ref.number] if ref.number in self._numbers else self._refs[ref.number])
            given, asking = calls[end].args[1], calls[end]
        self._inside -= 1
        self._counts_known = True
        if "count" in calls[end].kwargs:
            self._counts[calls[end].kwargs["count"].number] = iteration
        for result, ref in zip(calls[end].results, passed, strict=False):
            self._refs[result.number] = ref
        for result, elements in zip(calls[end].results[len(passed) :], lists, strict=True):
            self._lists[result.number] = elements
        return end + 1

    def _goes_on(self, begin: Call, call: Call, iteration: int) -> bool:
        if len(begin.args) > WITHOUT_COUNT:
            *_, count, index = begin.args
            self._indices[id(index)] = iteration
            return self._outcome(replace(call, args=(Number(True, "lt", (index, count)),)))
        condition, negated = call.args[0], False
        if isinstance(condition, Ref):
            made = self._negations.get(condition.number)
            condition, negated = (condition, False) if made is None else (made, True)
        else:
            asked = self._run.decisions[self._decided : self._decided + 1]
            other = Number(not condition.value, "ne" if condition.op == "eq" else "eq", condition.operands)
            negated = bool(asked) and not self._is_same(condition, asked[0].condition)
            condition = other if negated else condition
        return self._outcome(replace(call, args=(condition,))) is not negated

    def _constant(self, number: int) -> Ref:
        """A constant of the record in the run."""
        for other in self._run.constants:
            if self._is_tensor(number, Ref(other)):
                return Ref(other)
        raise _Other

    def _outcome(self, call: Call) -> bool:
        for index in range(self._decided, len(self._run.decisions)):
            asked = self._run.decisions[index]
            if asked.after == self._next and self._is_same(call.args[0], asked.condition):
                self._decided = index + 1
                return asked.outcome
        raise _Other

    def _pass_on(self, result: int, given: int, place: Place) -> None:
        if given in self._record.constants:
            self._places[result] = place
        if given in self._filled:
            self._filled[result] = self._filled[given]
        if given in self._refs:
            self._refs[result] = self._refs[given]
        elif given in self._numbers:
            self._numbers[result] = self._numbers[given]
        else:
            self._numbers[result] = self._record.constants[given]

    def _is_same(self, mine: Any, theirs: Any) -> bool:
        mine, theirs = _plain_constant(mine), _plain_constant(theirs)
        if self._is_list(mine) and isinstance(theirs, (list, tuple)):
            elements = list(self._elements(mine))
            return len(elements) == len(theirs) and all(
                self._is_seen(own, other) if is_found else self._is_same(own, other)
                for (own, is_found), other in zip(elements, theirs, strict=True)
            )
        if isinstance(mine, Ref):
            return isinstance(theirs, Ref) and self._is_tensor(mine.number, theirs)
        if isinstance(mine, Number):
            return self._is_number(mine, theirs)
        if isinstance(theirs, (Ref, Number)):
            return False
        return mine is theirs or (type(mine) is type(theirs) and bool(mine == theirs or (mine != mine != theirs)))

    def _seen(self, number: Any) -> Any:
        """A number over the tensors that the run has now: those of the record have others in each iteration."""
        if not isinstance(number, Number):
            return number

        def made(current: Number, operands: tuple[Any, ...]) -> Number:
            index = self._index(current)
            return Number(current.value, current.op, operands) if index is None else Number(index, "constant", ())

        return rewritten(number, lambda ref: self._refs.get(ref.number, ref), made)

    def _is_seen(self, own: Any, other: Any) -> bool:
        """Whether an element of a list, of the tensors of the run, is this one."""
        own, other = _plain_constant(own), _plain_constant(other)
        if isinstance(own, Ref) and isinstance(other, Ref):
            return self._memory(own) == self._memory(other)
        if not isinstance(own, Number) or not isinstance(other, Number):
            return bool(own == (other.value if isinstance(other, Number) and follows_iteration(other) else other))
        return is_alike_number(own, other) and all(map(self._is_seen, own.operands, other.operands))

    def _is_list(self, mine: Any) -> bool:
        return isinstance(mine, (list, tuple)) or (isinstance(mine, Ref) and mine.number in self._lists)

    def _elements(self, mine: Any) -> Iterator[tuple[Any, bool]]:
        """The elements of a list, which may have a list in its middle.

        Those that a loop made are tensors of the run."""
        for element in mine if isinstance(mine, (list, tuple)) else [mine]:
            if not isinstance(mine, tuple) and isinstance(element, Ref) and element.number in self._lists:
                yield from ((ref, True) for ref in self._lists[element.number])
            else:
                yield element, False

    def _is_tensor(self, mine: int, theirs: Ref) -> bool:
        if mine in self._refs:
            return self._memory(self._refs[mine]) == self._memory(theirs)
        if mine in self._filled and theirs.number in self._run.constants:
            numbers, shape, dtype = self._filled[mine].args
            content = list(map(self._index, numbers))
            constant = self._run.constants[theirs.number]
            return None not in content and is_same_constant(torch.tensor(content, dtype=dtype).reshape(shape), constant)
        tensor, other = self._numbers.get(mine), self._run.constants.get(theirs.number)
        tensor = self._record.constants.get(mine, tensor)
        if not isinstance(tensor, torch.Tensor) or other is None:
            return False
        same = tensor.dtype == other.dtype and tensor.shape == other.shape
        return tensor is other or (same and torch.equal(tensor, other))

    def _memory(self, ref: Ref) -> Ref:
        """The tensor that a call wrote to and gave back."""
        return self._written.get(ref.number, ref)

    def _index(self, number: Any) -> Any:
        """A number that follows from the index of an iteration alone."""
        if type(number) in (int, float):
            return number
        if not isinstance(number, Number):
            return None
        if id(number) in self._indices:
            return self._indices[id(number)]
        if number.op == "item" and number.operands[0].number in self._counts:
            return self._counts[number.operands[0].number]
        if number.op not in ("add", "mul"):
            return None
        left, right = map(self._index, number.operands)
        return None if left is None or right is None else getattr(operator, number.op)(left, right)

    def _is_number(self, mine: Number, theirs: Any) -> bool:
        index = self._index(mine)
        if index is not None:
            follows_index = isinstance(theirs, Number) and all(leaf.op == "place" for leaf in leaves(theirs))
            return bool(index == (theirs.value if follows_index else theirs))
        if mine.op == "item":
            chosen = self._numbers.get(mine.operands[0].number)
            if isinstance(chosen, torch.Tensor):
                return self._is_same(chosen.item(), theirs)
            if chosen is not None:
                return self._is_same(chosen, theirs)
        if not isinstance(theirs, Number):
            return False
        return is_alike_number(mine, theirs) and all(map(self._is_same, mine.operands, theirs.operands))


def _plain_constant(given: Any) -> Any:
    return given.value if isinstance(given, Number) and given.op == "constant" else given


def _end_of_loop(calls: Sequence[Call], begin: int) -> int:
    depth = 0
    for index in range(begin, len(calls)):
        depth += (calls[index].op is Mark.LOOP) - (calls[index].op is Mark.END_LOOP)
        if depth == 0:
            return index
    raise AssertionError("a loop ends")


def _marks(calls: Sequence[Call], begin: int) -> tuple[int, int]:
    """The indices of the marks that belong to the one that begins a branch."""
    depth, middle = 0, begin
    for index in range(begin, len(calls)):
        op = calls[index].op
        depth += (op is Mark.IF) - (op is Mark.END_IF)
        if depth == 0:
            return middle, index
        if op is Mark.ELSE and depth == 1:
            middle = index
    raise AssertionError("a branch ends")
