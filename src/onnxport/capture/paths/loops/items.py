"""What the code after a loop uses of single iterations: items of lists that the loop makes.

A loop over such a list, or over the parts of a tensor that was taken apart, uses one of them in each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.paths.loops.notes import NotALoop
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import Call, Loss, Number, Record, Ref, rewritten, tensors_in
from onnxport.capture.record.tensors.parts import ITEM, SELECT, SLICE, SPLIT, UNBIND, used

# Operators that join a list with a tensor for each iteration.
JOINS = frozenset({torch.ops.aten.stack.default, torch.ops.aten.cat.default})

Place = tuple[int, int]  # the index of a call in an iteration, and of one of its results


def parts_before(calls: Sequence[Call]) -> dict[int, tuple[int, int]]:
    """The parts of tensors and lists, by their numbers: a call that takes the same one apart, and the index."""
    found: dict[int, tuple[int, int]] = {}
    first: dict[Any, int] = {}  # the first call that takes a part of a tensor by itself
    for number, call in enumerate(calls):
        if call.op is UNBIND or call.op is SPLIT:
            found.update((ref.number, (number, index)) for index, ref in enumerate(call.results))
        elif (call.op is SELECT or call.op == ITEM) and not call.kwargs:
            *whole, index = call.args
            if type(index) is int and index >= 0:
                same = first.setdefault((call.op, *whole), number)
                found[call.results[0].number] = same, index
    return found


def parts_of(record: Record, loss: Loss) -> dict[int, tuple[int, int]]:
    """The parts of the tensor or list whose number of parts is lost."""
    wholes = set(tensors_in(loss.number))
    parts = parts_before(record.calls)
    return {ref: (call, index) for ref, (call, index) in parts.items() if record.calls[call].args[0].number in wholes}


def growing(index: Number, first: int, step: int) -> Number:
    """The number that is ``first`` in the first iteration, and larger by ``step`` in each next one."""
    scaled = index if step == 1 else Number(0, "mul", (index, step))
    return scaled if first == 0 else Number(first, "add", (scaled, first))


def taken(call: Call, first: int, step: int, index: Number, part: Ref) -> Call:
    """The call that takes the part of an iteration, from the ``first`` part on, of what ``call`` takes apart."""
    source, *given = call.args
    given += [call.kwargs[name] for name in ("split_size", "dim") if name in call.kwargs]
    at = growing(index, first, step)
    if call.op == ITEM:
        return Call(ITEM, (source, at), {}, [part], call.source, call.scope)
    length = given.pop(0) if call.op is SPLIT else 1
    dim = given[0] if given else 0
    if type(length) is not int:
        raise NotALoop(f"{call.source}: how long the parts are follows a size")
    if call.op is not SPLIT:
        return Call(SELECT, (source, dim, at), {}, [part], call.source, call.scope)
    bounds = [growing(index, length * begin, length * step) for begin in (first, first + 1)]
    return Call(SLICE, (source, dim, *bounds), {}, [part], call.source, call.scope)


def with_joined_parts(record: Record, loss: Loss, least: int) -> Record:
    """The record with a loop that makes a list of parts of what was taken apart, where a list of at least so many of
    them is joined: all but the first, or backwards."""
    lists, parts = lists_in(record.calls), parts_of(record, loss)
    for position in range(loss.after, len(record.calls)):
        call = record.calls[position]
        if call.op in JOINS and isinstance(call.args[0], (list, tuple)) and lists.isdisjoint(tensors_in(call.args[0])):
            column = [parts.get(ref.number, (-1, 0)) if isinstance(ref, Ref) else (-1, 0) for ref in call.args[0]]
            for start, count in _progressions(column):
                if least <= count <= loss.number.value:
                    return _with_list(record, loss, position, range(start, start + count), column)
    return record


def _progressions(column: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where parts of one tensor or list stand one after another whose indices have a constant step, and how many."""
    start = 0
    while start < len(column) - 1:
        (number, first), (_, second) = column[start : start + 2]
        count, step = 1, second - first
        while number >= 0 and column[start + count : start + count + 1] == [(number, first + step * count)]:
            count += 1
        if count > 1 and step:
            yield start, count
        start += max(count - 1, 1)


def _with_list(record: Record, loss: Loss, position: int, within: range, column: Sequence[tuple[int, int]]) -> Record:
    call, types = record.calls[position], list(record.types)
    (number, first), (_, second) = column[within.start : within.start + 2]
    like = types[call.args[0][within.start].number]
    part, made = Ref(len(types)), Ref(len(types) + 1)
    before = loss.number.value - len(within)
    count = Number(len(within), "sub", (loss.number, before)) if before else loss.number
    index = Number(0, "round", ())
    begin = Call(Mark.LOOP, (True, [], count, index), {}, [], call.source, call.scope)
    body = taken(record.calls[number], first, second - first, index, part)
    end = Call(Mark.END_LOOP, (True, [], [part]), {}, [made], call.source, call.scope)
    others = [*call.args[0][: within.start], made, *call.args[0][within.stop :]]
    joined = replace(call, args=(others if len(others) > 1 else made, *call.args[1:]))
    calls = [*record.calls[:position], begin, body, end, joined, *record.calls[position + 1 :]]
    return moved(replace(record, calls=calls, types=[*types, like, like]), lambda at: at + 3 * (at > position))


def moved(record: Record, place: Callable[[int], int]) -> Record:
    """The record with its notes behind as many calls as ``place`` says."""

    def all_moved(notes: Sequence[Any]) -> list[Any]:
        return [replace(note, after=place(note.after)) for note in notes]

    return replace(
        record,
        losses=all_moved(record.losses),
        reads=all_moved(record.reads),
        conditions=all_moved(record.conditions),
        decisions=all_moved(record.decisions),
    )


def lists_in(calls: Sequence[Call]) -> set[int]:
    """The lists that loops make."""
    return {ref.number for call in calls if call.op is Mark.END_LOOP for ref in call.results[len(call.args[1]) :]}


def items_behind(
    record: Record, end: int, count: int, made: Mapping[int, tuple[int, Place]], passed: Collection[Place]
) -> tuple[Record, dict[Place, dict[int, Ref]]]:
    """The record with another value in the place of each result of an iteration that is used after the ``end`` of a
    loop; these values by the call that made it, and its iteration.

    Not of what is ``passed`` on, if only the last iteration's is used, nor in a list that has a value of each iteration
    and is joined.
    """
    lists = lists_in(record.calls)
    joined = {
        position: _column(call, count, made, lists) for position, call in enumerate(record.calls[end:], start=end)
    }
    wanted: dict[Place, None] = {}
    used_behind = list(_used_behind(record, end, joined))
    for number in used_behind:
        iteration, place = made.get(number, (-1, (-1, -1)))
        if iteration >= 0 and (iteration < count - 1 or place not in passed):
            wanted[place] = None
    types = list(record.types)
    found: dict[Place, dict[int, Ref]] = {place: {} for place in wanted}
    refs: dict[int, Ref] = {}
    for number in dict.fromkeys(used_behind):  # in the order of their uses, which is the same at each size
        iteration, place = made.get(number, (-1, (-1, -1)))
        if place in found:
            refs[number] = found[place][iteration] = Ref(len(types))
            types.append(types[number])
    return _Renaming(refs).after(replace(record, types=types), end, joined), found


def _column(call: Call, count: int, made: Mapping[int, tuple[int, Place]], lists: set[int]) -> range:
    """Where a list that a call joins has the results of all iterations, and none of those of another loop."""
    parts = call.args[0] if call.op in JOINS and isinstance(call.args[0], (list, tuple)) else ()
    if not lists.isdisjoint(tensors_in(parts)):
        return range(0)
    found = [made.get(ref.number, (-1, None)) if isinstance(ref, Ref) else (-1, None) for ref in parts]
    for start in range(len(found) - count + 1):
        if found[start : start + count] == [(iteration, found[start][1]) for iteration in range(count)]:
            return range(start, start + count)
    return range(0)


def _used_behind(record: Record, end: int, joined: Mapping[int, range]) -> Iterator[int]:
    for position, call in enumerate(record.calls[end:], start=end):
        column = joined[position]
        first = [ref for index, ref in enumerate(call.args[0]) if index not in column] if column else call.args[:1]
        yield from tensors_in([first, *call.args[1:], *call.kwargs.values()])
    yield from tensors_in(list(record.outputs))
    yield from tensors_in([read.of for read in record.reads if read.after >= end])
    yield from tensors_in([part for c in record.conditions if c.after > end for part in (c.left, c.right)])


class _Renaming:
    """Puts other tensors in the place of some."""

    def __init__(self, refs: Mapping[int, Ref]) -> None:
        self._refs = refs
        self._known: dict[int, tuple[Number, Number]] = {}  # by the ids of the numbers, which are kept

    def after(self, record: Record, end: int, joined: Mapping[int, range]) -> Record:
        calls = [self._call(call, joined[position]) for position, call in enumerate(record.calls[end:], start=end)]
        conditions = [
            replace(c, left=self._of(c.left), right=self._of(c.right)) if c.after > end else c
            for c in record.conditions
        ]
        return replace(
            record,
            calls=[*record.calls[:end], *calls],
            outputs=[self._of(leaf) for leaf in record.outputs],
            conditions=conditions,
            reads=[replace(read, of=self._of(read.of)) if read.after >= end else read for read in record.reads],
            losses=[
                replace(loss, number=self._of(loss.number)) if loss.after >= end else loss for loss in record.losses
            ],
            decisions=[
                replace(decision, condition=self._of(decision.condition)) if decision.after >= end else decision
                for decision in record.decisions
            ],
        )

    def _call(self, call: Call, column: range) -> Call:
        args = tuple(self._of(given) for given in call.args)
        if column:
            args = ([ref if i in column else self._of(ref) for i, ref in enumerate(call.args[0])], *args[1:])
        return replace(call, args=args, kwargs={name: self._of(given) for name, given in call.kwargs.items()})

    def _of(self, given: Any) -> Any:
        if self._refs.keys().isdisjoint(tensors_in(given)):
            return given
        if isinstance(given, Ref):
            return self._refs.get(given.number, given)
        if isinstance(given, Number):
            return self._number(given)
        if isinstance(given, dict):
            return {name: self._of(part) for name, part in given.items()}
        return type(given)(self._of(part) for part in given)

    def _number(self, number: Number) -> Number:
        if id(number) not in self._known:
            made = rewritten(number, self._of, lambda one, operands: Number(one.value, one.op, operands))
            self._known[id(number)] = made, number
        return self._known[id(number)][0]


def without_unused_parts(record: Record) -> Record:
    """The record without the calls that take a single part of a tensor or list which nothing uses."""
    needed = set(used(record))
    places, calls = list[int](), list[Call]()
    for call in record.calls:
        places.append(len(calls))
        is_part = call.op == ITEM or call.op is SELECT
        if not is_part or call.results[0].number in needed:
            calls.append(call)
    places.append(len(calls))
    if len(calls) == len(record.calls):
        return record
    return moved(replace(record, calls=calls), places.__getitem__)
