"""Folds the calls of the iterations of a loop, which a record has one after another, into one loop.

Each argument in an iteration has to be the same value in every iteration, a value of this iteration or of the one
before, or a number that grows by a constant step. Other loops stay unrolled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.paths.loops.alignment import aligned
from onnxport.capture.paths.loops.conditions import negated
from onnxport.capture.paths.loops.items import JOINS, Place, growing, items_behind, lists_in, parts_before, taken
from onnxport.capture.paths.loops.notes import NotALoop, check_between, moved
from onnxport.capture.paths.merge import is_same_constant
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import TENSOR_OF, Call, Decision, Loss, Number, Record, Ref, tensors_in
from onnxport.capture.record.tensors.parts import ITEM
from onnxport.graph.ir import Source

FOLDED = {"varies": True}  # a carried tensor may have other sizes in each iteration


class Iterations:
    """The calls of some iterations. The first one becomes the body of a loop.

    ``initial`` has what values of an iteration that are used behind the loop are where it has no iteration. Where the
    results of single iterations are used after the loop, it collects them in a list, if it ``lists``.
    """

    def __init__(
        self,
        record: Record,
        start: int,
        period: int,
        count: int,
        initial: Mapping[int, Ref] | None = None,
        *,
        lists: bool = False,
    ) -> None:
        self._initial = initial or {}
        self.record, self.start, self.period, self.count = record, start, period, count
        self.end = start + count * period
        self.types = list(record.types)
        self.index = Number(0, "round", ())
        self._most: int | None = None  # iterations, if it is known
        self._made: dict[int, tuple[int, Place]] = {}  # by the number of a value: its iteration, and the call
        for index, call in enumerate(record.calls[start : self.end]):
            for output, ref in enumerate(call.results):
                if isinstance(ref, Ref):
                    self._made[ref.number] = index // period, (index % period, output)
        # The value in the body, by the initial value and the call that computes the next one, or the value in the body
        # that is the next one.
        self._carried: dict[tuple[Ref, Place | Ref], Ref] = {}
        self._collected: dict[Ref, Ref] = {}  # lists with an element per iteration, by that element
        self._lists = lists
        self._listed: list[Call] = []  # tensors of the numbers that an iteration appends to a list
        self._items: list[Call] = []  # that the code after the loop uses
        self._parts: dict[tuple[int, int, int], Call] = {}  # the part of a tensor that an iteration uses
        self._parts_before = parts_before(record.calls[:start])
        self._lists_made = lists_in(record.calls)

    def as_loop(self, loss: Loss, before: int, source: Source | None) -> Record:
        """The record with a loop over a range, or over the parts of a tensor or list, whose length is lost."""
        iterations: Any = self.count
        if loss.number.value == self.count + before:
            iterations = Number(self.count, "sub", (loss.number, before)) if before else loss.number
        body = self._body()
        if self._lists:
            self._collect_items(source)
        record = self.record
        found, length, begins = self._counted(body, iterations, (source, body[0].scope))
        first = next(index for index, other in enumerate(record.losses) if other is loss) + 1
        found = self._with_notes(found, length, first, begins)
        found = replace(found, decisions=self._moved(record.decisions, len(record.decisions), length, begins))
        lists = {item.args[0]: None for item in self._items}
        behind = self.start + length - len(self._items)
        lost = [Loss("parts", Number(self.count, "length", (made,)), source, behind, {}) for made in lists]
        return replace(found, losses=sorted([*lost, *found.losses], key=lambda loss: loss.after))

    def as_while(self, found: Sequence[int], asked_at_most: int | None = None) -> Record:
        """The record with a loop that goes on as long as a condition has the outcome that it has at first.

        ``found`` are the indices of its decisions, before each iteration and after the last. Python ends the loop if it
        asked so often."""
        self._most = None if asked_at_most is None else asked_at_most - 1
        decisions = self.record.decisions
        asked = [decisions[index] for index in found]
        self.record = aligned(self.record, self.start, self.period, self.count)
        self.types = list(self.record.types)
        body, first = self._body(), asked[0]
        inside = self._decisions_inside([decisions[begin + 1 : end] for begin, end in itertools.pairwise(found)])
        if first.counts_iterations:
            iterations = self._common([decision.condition.operands[1] for decision in asked[:-1]])
            moved, length, begins = self._counted(body, iterations, (first.source, first.scope))
        else:
            moved, length, begins = self._conditional(body, asked)
        moved = self._with_notes(moved, length, first.noted[2], begins)
        inside = [replace(decision, after=decision.after + begins) for decision in inside]
        behind = self._moved(decisions[found[-1] + 1 :], 0, length, begins)
        return replace(moved, decisions=[*decisions[: found[0]], *inside, *behind])

    def _body(self) -> list[Call]:
        check_between(self.record, self.start, self.period, self.count)
        calls, start, period = self.record.calls, self.start, self.period
        return [self._call(calls[start + index : self.end : period]) for index in range(period)]

    def _counted(self, body: list[Call], iterations: Any, index: tuple[Source | None, str]) -> tuple[Record, int, int]:
        """The record with a loop of so many iterations; the length of the loop, and how many calls begin it."""
        after, outputs = self._all_behind()
        carried = list(self._carried.items())
        firsts, entries = [first for (first, _), _ in carried], [entry for _, entry in carried]
        begin = Call(Mark.LOOP, (True, firsts, iterations, self.index), FOLDED, entries, *index)
        given = [self._following(0, made) for (_, made), _ in carried], list(self._collected)
        end = Call(Mark.END_LOOP, (True, *given), {}, self._results(), *index)
        inner = [begin, *self._parts.values(), *body, *self._listed, end, *self._items]
        return self._with_calls(inner, after, outputs), len(inner), 1 + len(self._parts)

    def _conditional(self, body: list[Call], asked: Sequence[Decision]) -> tuple[Record, int, int]:
        """The same for a loop that a condition ends."""
        later = self._common([decision.condition for decision in asked[1:]])
        after, outputs = self._all_behind()
        first = asked[0]
        goes_on, again = ([first.condition, later], []) if first.outcome else negated(first, later, self.types)
        index = first.source, first.scope
        kwargs: dict[str, Any] = {**FOLDED, "index": self.index}
        if self._most is not None:
            kwargs["most"] = self._most
        carried = list(self._carried.items())
        firsts, entries = [value for (value, _), _ in carried], [entry for _, entry in carried]
        begin = Call(Mark.LOOP, (goes_on[0], firsts), kwargs, entries, *index)
        given = [self._following(0, made) for (_, made), _ in carried], list(self._collected)
        end = Call(Mark.END_LOOP, (goes_on[1], *given), {}, self._results(), *index)
        inner = [*again[:1], begin, *self._parts.values(), *body, *self._listed, *again[1:], end]
        return self._with_calls(inner, after, outputs), len(inner), 1 + len(again[:1]) + len(self._parts)

    def _all_behind(self) -> tuple[list[Call], list[Any]]:
        """The calls and outputs after the loop."""
        record = self.record
        after = [self._behind(call) for call in record.calls[self.end :]]
        outputs = [self._last(leaf, None) for leaf in record.outputs]
        self._check_behind()
        return after, outputs

    def _with_calls(self, inner: list[Call], after: list[Call], outputs: list[Any]) -> Record:
        calls = [*self.record.calls[: self.start], *inner, *after]
        return replace(self.record, calls=calls, types=self.types, outputs=outputs)

    def _decisions_inside(self, rows: Sequence[Sequence[Decision]]) -> list[Decision]:
        """The conditions of loops in the body, as the first iteration has them."""
        if any([other.site for other in row] != [first.site for first in rows[0]] for row in rows):
            raise NotALoop
        columns = zip(*rows, strict=True)
        return [
            replace(column[0], condition=self._common([decision.condition for decision in column]))
            for column in columns
        ]

    # Arguments in the body

    def _call(self, column: Sequence[Call]) -> Call:
        first = column[0]
        try:
            if any(call.kwargs.keys() != first.kwargs.keys() for call in column):
                raise NotALoop
            args = self._common([call.args for call in column])
            kwargs = {name: self._common([call.kwargs[name] for call in column]) for name in first.kwargs}
        except NotALoop:
            raise NotALoop(
                f"{first.source}: a value used here is not the same in each iteration, is no result of the iteration "
                "before, and does not grow by a constant step"
            ) from None
        return replace(first, args=args, kwargs=kwargs)

    def _common(self, column: Sequence[Any]) -> Any:
        """The argument in the body for an argument that each iteration has."""
        first = column[0]
        if any(type(given) is not type(first) for given in column):
            raise NotALoop
        if isinstance(first, Ref):
            return self._common_value(column)
        if isinstance(first, Number):
            return self._common_number(column)
        if isinstance(first, (list, tuple)):
            if any(len(given) != len(first) for given in column):
                raise NotALoop
            return type(first)(self._common(parts) for parts in zip(*column, strict=True))
        if all(given is first or bool(given == first) for given in column):
            return first
        if type(first) is not int or len(steps := {right - left for left, right in itertools.pairwise(column)}) > 1:
            raise NotALoop
        return growing(self.index, first, *steps)

    def _common_value(self, column: Sequence[Ref]) -> Ref:
        first, second = column[:2]
        made = [self._made.get(ref.number) for ref in column]
        if made[0] is None and all(ref == first or self._is_equal(ref, first) for ref in column):
            return first
        if made[0] is not None and made == [(number, made[0][1]) for number in range(self.count)]:
            return first
        before = self._made.get(second.number)
        if before is None:
            return self._part(column) if made[-1] is None else self._given_before(column)
        if made[0] is not None or made[1:] != [(number, before[1]) for number in range(self.count - 1)]:
            raise NotALoop
        (dtype, shape), (other_dtype, other_shape) = (self.types[ref.number] for ref in (first, second))
        if dtype != other_dtype or len(shape) != len(other_shape):
            raise NotALoop
        return self._carried.setdefault((first, before[1]), self._new(first))

    def _given_before(self, column: Sequence[Ref]) -> Ref:
        """The value in the body for what the iteration before was given: ``a, b = b, a % b``."""
        first, second, third = column[:3]
        made = [self._made.get(ref.number) for ref in column[2:]]
        types = [(self.types[ref.number][0], len(self.types[ref.number][1])) for ref in (first, second, third)]
        if made[0] is None or len(set(types)) > 1 or made != [(n, made[0][1]) for n in range(self.count - 2)]:
            raise NotALoop
        if not self._made.keys().isdisjoint((first.number, second.number)):
            raise NotALoop
        entry = self._carried.setdefault((second, made[0][1]), self._new(second))
        return self._carried.setdefault((first, entry), self._new(first))

    def _is_equal(self, ref: Ref, other: Ref) -> bool:
        """Whether both are the same constant."""
        tensors = [self.record.constants.get(one.number) for one in (ref, other)]
        return all(tensor is not None for tensor in tensors) and is_same_constant(*tensors)  # type: ignore[arg-type]

    def _common_number(self, column: Sequence[Number]) -> Any:
        first = column[0]
        if all(number is first for number in column):
            if not self._made.keys().isdisjoint(tensors_in(first)):
                raise NotALoop
            return first
        if any(number.op != first.op or len(number.operands) != len(first.operands) for number in column):
            raise NotALoop
        if first.op in ("constant", "place"):
            return self._common([number.value for number in column])
        operands = zip(*(number.operands for number in column), strict=True)
        return Number(first.value, first.op, tuple(map(self._common, operands)))

    def _part(self, column: Sequence[Ref]) -> Ref:
        """The value in the body where each iteration uses one part of a tensor or list that was taken apart before."""
        found = [self._parts_before.get(ref.number, (-1, 0)) for ref in column]
        (number, first), (_, second) = found[:2]
        step = second - first
        if number < 0 or found != [(number, first + step * index) for index in range(self.count)]:
            raise NotALoop
        key = number, first, step
        if key not in self._parts:
            self._parts[key] = taken(self.record.calls[number], first, step, self.index, self._new(column[0]))
        part: Ref = self._parts[key].results[0]
        return part

    # Uses after the loop

    def _collect_items(self, source: Source | None) -> None:
        """Use items of lists after the loop for what single iterations gave."""
        passed = {index for _, index in self._carried if not isinstance(index, Ref)}
        self.record, found = items_behind(self.record, self.end, self.count, self._made, passed)
        self.types = list(self.record.types)
        for place, items in found.items():
            call = self.record.calls[self.start + place[0]]
            if call.op is Mark.END_LOOP and place[1] >= len(call.args[1]):
                raise NotALoop(f"{call.source}: a list is made here in each iteration, and used after the loop")
            if len({(self.types[ref.number][0], len(self.types[ref.number][1])) for ref in items.values()}) > 1:
                raise NotALoop(f"{source}: what the iterations give has several dtypes or numbers of dimensions")
            rows = self._collected.setdefault(self._ref(0, place), self._new(self._ref(self.count - 1, place)))
            self._items += [Call(ITEM, (rows, index), {}, [ref], source, "") for index, ref in items.items()]

    def _behind(self, call: Call) -> Call:
        if call.op in JOINS and isinstance(call.args[0], (list, tuple)):
            call = replace(call, args=(self._list(call.args[0]), *call.args[1:]))
        elif call.op == TENSOR_OF and len(call.args[1]) == 1:
            call = self._tensor_of_list(call)
        args = tuple(self._last(argument, call.source) for argument in call.args)
        kwargs = {name: self._last(given, call.source) for name, given in call.kwargs.items()}
        return replace(call, args=args, kwargs=kwargs)

    def _tensor_of_list(self, call: Call) -> Call:
        """A tensor of a list that has a number of each iteration: each iteration makes a tensor of its own number."""
        numbers, _, dtype = call.args
        for start in reversed(range(len(numbers) - self.count + 1)):  # what an iteration makes, not what it is given
            column = numbers[start : start + self.count]
            if self._made.keys().isdisjoint(tensors_in(column)):
                continue
            try:
                number = self._common(column)
            except NotALoop:
                continue
            element, rows = self._new_of(dtype), self._new_of(dtype)
            self._listed.append(replace(call, args=([number], [], dtype), results=[element]))
            self._collected[element] = rows
            others = [*numbers[:start], *numbers[start + self.count :]]
            return replace(call, args=([*others[:start], rows, *others[start:]], *call.args[1:]))
        return call

    def _new_of(self, dtype: torch.dtype) -> Ref:
        self.types.append((dtype, ()))
        return Ref(len(self.types) - 1)

    def _list(self, refs: Sequence[Any]) -> Any:
        """A list with a value of each iteration, alone or between other tensors of the same dtype."""
        if len({self.types[ref.number][0] for ref in refs}) > 1 or not self._lists_made.isdisjoint(tensors_in(refs)):
            return refs
        starts = range(len(refs) - self.count + 1)
        for start in sorted(starts, key=lambda start: self._made.get(refs[start].number, (1,))[0]):  # from the first
            column, others = refs[start : start + self.count], [*refs[:start], *refs[start + self.count :]]
            if self._made.keys().isdisjoint(ref.number for ref in column):
                continue
            try:
                element = self._common_value(column)
            except NotALoop:
                continue
            rows = self._collected.setdefault(element, self._new(column[-1]))
            return [*others[:start], rows, *others[start:]] if others else rows
        return refs

    def _last(self, given: Any, source: Source | None) -> Any:
        """Check that values used after the loop are carried values of the last iteration."""
        passed = {index for _, index in self._carried}
        for number in tensors_in(given):
            made = self._made.get(number)
            if made is None or (made[0] == self.count - 1 and made[1] in passed) or self._is_passed_on(number, *made):
                continue
            raise NotALoop(
                f"{source or 'the model'}: a result of one iteration is used after the loop, and it is not what "
                "the last iteration passed on"
            )
        return given

    def _is_passed_on(self, number: int, iteration: int, index: Place) -> bool:
        """Whether a value of the last iteration, or of the one before, is carried: it is known what it is at first."""
        first = self._initial.get(number)
        if first is None or first.number in self._made:
            return False
        (dtype, shape), (other_dtype, other_shape) = self.types[number], self.types[first.number]
        if dtype != other_dtype or len(shape) != len(other_shape):
            return False
        if iteration == self.count - 1:
            self._carried.setdefault((first, index), self._new(first))
            return True
        before = [entry for (_, made), entry in self._carried.items() if made == index]
        if iteration != self.count - 2 or not before:
            return False
        self._carried.setdefault((first, before[0]), self._new(first))
        return True

    def _following(self, number: int, made: Place | Ref) -> Ref:
        """What an iteration passes on: what it made, or what it was given."""
        if not isinstance(made, Ref):
            return self._ref(number, made)
        index = next(index for (_, index), entry in self._carried.items() if entry == made)
        return made if number == 0 else self._following(number - 1, index)

    def _results(self) -> list[Ref]:
        results: list[Ref] = []
        for _, index in self._carried:
            last = self._following(self.count - 1, index)
            results.append(last if last not in results else self._new(last))
        return [*results, *self._collected.values()]

    def _ref(self, number: int, index: Place) -> Ref:
        found: Ref = self.record.calls[self.start + number * self.period + index[0]].results[index[1]]
        return found

    def _new(self, like: Ref) -> Ref:
        self.types.append(self.types[like.number])
        return Ref(len(self.types) - 1)

    # Notes on what Python read and compared

    def _check_behind(self) -> None:
        for condition in self.record.conditions:
            if condition.after > self.end:
                self._last((condition.left, condition.right), condition.source)
        for read in self.record.reads:
            self._last(read.of, read.source)

    def _with_notes(self, record: Record, length: int, first: int, begins: int) -> Record:
        """The record with the notes of the first iteration in the body, which ``begins`` calls precede.

        Those of the other iterations are dropped. The ``first`` losses are those before the loop."""
        conditions = self._moved(record.conditions, len(record.conditions), length, begins)
        reads = self._moved(record.reads, len(record.reads), length, begins)
        losses = self._moved(record.losses, first, length, begins)
        losses = [loss for loss in losses if self._made.keys().isdisjoint(tensors_in(loss.number))]
        return replace(record, conditions=conditions, reads=reads, losses=losses)

    def _moved(self, notes: Sequence[Any], first: int, length: int, begins: int) -> list[Any]:
        return moved(notes, first, (self.start, self.start + self.period, self.end), length, begins)
