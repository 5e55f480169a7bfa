"""Python loops over sizes: the calls of their rounds, which a record has one after another, as one loop.

What a round is given is the same in every round, was made in the round, or in the one before it, or is a number that
grows by as much in each. A loop of which that is not true stays as it was recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.paths.merge import is_alike
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import Call, Decision, Loss, Number, Record, Ref, counts_rounds, tensors_in
from onnxport.capture.record.tensors.parts import SELECT, SLICE, SPLIT, UNBIND, with_single_parts
from onnxport.graph.ir import Source

# Two rounds do not tell whether a number grows by as much in each.
LEAST_ROUNDS = 3
LOGICAL_NOT = torch.ops.aten.logical_not.default
# What takes a list of as many tensors as there were rounds.
JOINS = frozenset({torch.ops.aten.stack.default, torch.ops.aten.cat.default})

Place = tuple[int, int]  # a call of a round, and one of its results


class NotRounds(Exception):
    """Calls that repeat, but are not the iterations of one loop; the message is for the user."""


def with_loops(record: Record, lines: Collection[Source | None]) -> Record:
    """The record with the loops that begin on these lines, if they have enough rounds to tell what they do."""
    done = 0
    while done < len(record.losses):
        loss = record.losses[done]
        begins = loss.how in ("index", "parts") and loss.source in lines  # range(n), or a tensor taken apart
        if begins and loss.number.value >= LEAST_ROUNDS:
            record = _with_loop(record, loss)
        done += 1
    return record


def loops(record: Record) -> int:
    """How many loops the record has, by their lines and by how many others they are in."""
    found, depth = set(), 0
    for call in record.calls:
        if call.op is Mark.LOOP:
            found.add((call.source, depth))
        depth += (call.op is Mark.LOOP) - (call.op is Mark.END_LOOP)
    return len(found)


def _with_loop(record: Record, loss: Loss) -> Record:
    start, reasons = loss.after, dict(record.unrolled)
    while True:
        for period, count in _repeated(record.calls, start, loss.number.value):
            # The first round may be given something else: a zero that is broadcast.
            for before in (0, 1) if count > LEAST_ROUNDS else (0,):
                try:
                    rounds = Rounds(record, start + before * period, period, count - before)
                    return with_single_parts(rounds.as_loop(loss, before))
                except NotRounds as reason:
                    reasons.setdefault(loss.source, str(reason))
        if start == len(record.calls) or record.calls[start].op not in (UNBIND, SPLIT):
            return replace(record, unrolled=reasons)
        start += 1  # several tensors are taken apart before a loop over all of them


def _repeated(calls: Sequence[Call], start: int, wanted: int) -> Iterator[tuple[int, int]]:
    """How many calls are made several times one after another, and how often: as often as is wanted, if possible.

    A round of a loop may hold several of another one.
    """
    found: list[tuple[int, int]] = []  # periods, and how far they reach, as their multiples do
    for period in range(1, (len(calls) - start) // LEAST_ROUNDS + 1):
        if any(period % other == 0 and period <= reach for other, reach in found):
            continue
        end = start + period
        while end < len(calls) and is_alike(calls[end], calls[end - period]):
            end += 1
        most = (end - start) // period
        if most >= LEAST_ROUNDS:
            found.append((period, end - start))
            counts = [count for count in range(most, LEAST_ROUNDS - 1, -1) if most % count == 0]
            for count in sorted(counts, key=lambda count: count != wanted):
                yield most // count * period, count


class Rounds:
    """The calls of some rounds. The first round becomes the body of a loop."""

    def __init__(self, record: Record, start: int, period: int, count: int) -> None:
        self.record, self.start, self.period, self.count = record, start, period, count
        self.end = start + count * period
        self.types = list(record.types)
        self.index = Number(0, "round", ())
        self._made: dict[int, tuple[int, Place]] = {}  # by the number of a value: its round and place
        for place, call in enumerate(record.calls[start : self.end]):
            for output, ref in enumerate(call.results):
                if isinstance(ref, Ref):
                    self._made[ref.number] = place // period, (place % period, output)
        self._carried: dict[tuple[Ref, Place], Ref] = {}  # by what it is at first, and becomes: what a round is given
        self._collected: dict[Place, Ref] = {}  # lists of what each round made
        self._parts: dict[tuple[int, int], Call] = {}  # the part of a tensor that a round is given

    def as_loop(self, loss: Loss, before: int) -> Record:
        record, start, period = self.record, self.start, self.period
        self._check_between()
        columns = [record.calls[start + place : self.end : period] for place in range(period)]
        body = [self._call(column) for column in columns]
        after = [self._behind(call) for call in record.calls[self.end :]]
        outputs = [self._last(leaf, None) for leaf in record.outputs]
        self._check_behind()
        rounds: Any = self.count
        if loss.number.value == self.count + before:
            rounds = Number(self.count, "sub", (loss.number, before)) if before else loss.number
        carried = list(self._carried.items())
        place = loss.source, body[0].scope
        begin = Call(Mark.LOOP, (True, [first for (first, _), _ in carried], rounds, self.index), {},
                     [entry for _, entry in carried], *place)  # fmt: skip
        given = [self._ref(0, place) for (_, place), _ in carried], [self._ref(0, place) for place in self._collected]
        end = Call(Mark.END_LOOP, (True, *given), {}, self._results(), *place)
        inner = [begin, *self._parts.values(), *body, end]
        moved = replace(record, calls=[*record.calls[:start], *inner, *after], types=self.types, outputs=outputs)
        first = next(place for place, other in enumerate(record.losses) if other is loss) + 1
        return self._with_notes(moved, len(inner), first, 1 + len(self._parts))

    def as_while(self, asked: Sequence[Decision], before: int, after: int) -> Record:
        """The record with a loop that goes on as long as a condition, asked before each round and behind the last, has
        the outcome that it has at first."""
        record, start, period = self.record, self.start, self.period
        self._check_between()
        columns = [record.calls[start + place : self.end : period] for place in range(period)]
        body = [self._call(column) for column in columns]
        later = self._common([decision.condition for decision in asked[1:]])
        after_calls = [self._behind(call) for call in record.calls[self.end :]]
        outputs = [self._last(leaf, None) for leaf in record.outputs]
        self._check_behind()
        first = asked[0]
        goes_on, again = ([first.condition, later], []) if first.outcome else self._negated(first, later)
        place = first.source, first.scope
        carried = list(self._carried.items())
        firsts, entries = [value for (value, _), _ in carried], [entry for _, entry in carried]
        begin = Call(Mark.LOOP, (goes_on[0], firsts), {}, entries, *place)
        given = [self._ref(0, made) for (_, made), _ in carried]
        end = Call(Mark.END_LOOP, (goes_on[1], given), {}, self._results(), *place)
        inner = [*again[:1], begin, *self._parts.values(), *body, *again[1:], end]
        moved = replace(
            record, calls=[*record.calls[:start], *inner, *after_calls], types=self.types, outputs=outputs,
            decisions=[*record.decisions[:before], *record.decisions[after:]],
        )  # fmt: skip
        return self._with_notes(moved, len(inner), first.noted[2], 1 + len(again[:1]) + len(self._parts))

    def _negated(self, first: Decision, later: Any) -> tuple[list[Any], list[Call]]:
        """A condition that ends a loop where it holds."""
        found: list[Any] = []
        calls: list[Call] = []
        for condition in (first.condition, later):
            if isinstance(condition, Number):
                if condition.op not in ("eq", "ne"):
                    raise NotRounds(f"{first.source}: a comparison of numbers ends the loop")
                op = "ne" if condition.op == "eq" else "eq"
                found.append(Number(not condition.value, op, condition.operands))
                continue
            self.types.append((torch.bool, self.types[condition.number][1]))
            found.append(Ref(len(self.types) - 1))
            calls.append(Call(LOGICAL_NOT, (condition,), {}, [found[-1]], first.source, first.scope))
        return found, calls

    # What a round is given

    def _call(self, column: Sequence[Call]) -> Call:
        first = column[0]
        try:
            if any(call.kwargs.keys() != first.kwargs.keys() for call in column):
                raise NotRounds
            args = self._common([call.args for call in column])
            kwargs = {name: self._common([call.kwargs[name] for call in column]) for name in first.kwargs}
        except NotRounds:
            raise NotRounds(
                f"{first.source}: a value used here is not the same in each iteration, is no result of the iteration "
                "before, and does not grow by a constant step"
            ) from None
        return replace(first, args=args, kwargs=kwargs)

    def _common(self, column: Sequence[Any]) -> Any:
        """An argument of all rounds, as the body of a loop has it."""
        first = column[0]
        if any(type(given) is not type(first) for given in column):
            raise NotRounds
        if isinstance(first, Ref):
            return self._common_value(column)
        if isinstance(first, Number):
            return self._common_number(column)
        if isinstance(first, (list, tuple)):
            if any(len(given) != len(first) for given in column):
                raise NotRounds
            return type(first)(self._common(parts) for parts in zip(*column, strict=True))
        if all(given is first or bool(given == first) for given in column):
            return first
        if type(first) is not int or len(steps := {right - left for left, right in itertools.pairwise(column)}) > 1:
            raise NotRounds
        return self._growing(first, *steps)

    def _growing(self, first: int, step: int) -> Number:
        scaled = self.index if step == 1 else Number(0, "mul", (self.index, step))
        return scaled if first == 0 else Number(first, "add", (scaled, first))

    def _common_value(self, column: Sequence[Ref]) -> Ref:
        first, second = column[:2]
        made = [self._made.get(ref.number) for ref in column]
        if made[0] is None and all(ref == first for ref in column):
            return first
        if made[0] is not None and made == [(number, made[0][1]) for number in range(self.count)]:
            return first
        before = self._made.get(second.number)
        if before is None:
            return self._part(column)
        if made[0] is not None or made[1:] != [(number, before[1]) for number in range(self.count - 1)]:
            raise NotRounds
        if self.types[first.number] != self.types[second.number]:
            raise NotRounds
        return self._carried.setdefault((first, before[1]), self._new(first))

    def _common_number(self, column: Sequence[Number]) -> Any:
        first = column[0]
        if all(number is first for number in column):
            if not self._made.keys().isdisjoint(tensors_in(first)):
                raise NotRounds
            return first
        if any(number.op != first.op or len(number.operands) != len(first.operands) for number in column):
            raise NotRounds
        if first.op in ("constant", "place"):
            return self._common([number.value for number in column])
        operands = zip(*(number.operands for number in column), strict=True)
        return Number(first.value, first.op, tuple(map(self._common, operands)))

    def _part(self, column: Sequence[Ref]) -> Ref:
        """Each round is given one part of a tensor that was taken apart before."""
        for number, call in enumerate(self.record.calls[: self.start]):
            if call.op in (UNBIND, SPLIT) and column[0] in call.results:
                first = call.results.index(column[0])
                if list(column) != call.results[first : first + self.count]:
                    break
                if (number, first) not in self._parts:
                    self._parts[number, first] = self._taken(call, first, self._new(column[0]))
                found: Ref = self._parts[number, first].results[0]
                return found
        raise NotRounds

    def _taken(self, call: Call, first: int, part: Ref) -> Call:
        """The part that a round takes of what was taken apart, from the first of them on."""
        source, *given = call.args
        given += [call.kwargs[name] for name in ("split_size", "dim") if name in call.kwargs]
        length = given.pop(0) if call.op is SPLIT else 1
        dim = given[0] if given else 0
        if type(length) is not int:
            raise NotRounds(f"{call.source}: how long the parts are follows a size")
        bounds = [self._growing(length * place, length) for place in (first, first + 1)]
        op, args = (SLICE, (source, dim, *bounds)) if call.op is SPLIT else (SELECT, (source, dim, bounds[0]))
        return Call(op, args, {}, [part], call.source, call.scope)

    # What is used behind the loop

    def _behind(self, call: Call) -> Call:
        if call.op in JOINS and isinstance(call.args[0], (list, tuple)):
            call = replace(call, args=(self._list(call.args[0]), *call.args[1:]))
        args = tuple(self._last(argument, call.source) for argument in call.args)
        kwargs = {name: self._last(given, call.source) for name, given in call.kwargs.items()}
        return replace(call, args=args, kwargs=kwargs)

    def _list(self, refs: Sequence[Any]) -> Any:
        """A list of what each round made: alone, or between tensors of the same dtype."""
        made = [self._made.get(ref.number) for ref in refs]
        first = next((place for place, found in enumerate(made) if found is not None), len(made))
        column, others = made[first : first + self.count], [*refs[:first], *refs[first + self.count :]]
        is_one_type = len({self.types[ref.number][0] for ref in refs}) == 1
        if not is_one_type or not column or column != [(number, column[0][1]) for number in range(self.count)]:  # type: ignore[index]
            return refs
        rows = self._collected.setdefault(column[0][1], self._new(refs[first]))  # type: ignore[index]
        return [*others[:first], rows, *others[first:]] if others else rows

    def _last(self, given: Any, source: Source | None) -> Any:
        """What is used behind the loop is what the last round passed on."""
        passed = {place for _, place in self._carried}
        for number in tensors_in(given):
            made = self._made.get(number)
            if made is not None and (made[0] != self.count - 1 or made[1] not in passed):
                raise NotRounds(
                    f"{source or 'the model'}: a result of one iteration is used after the loop, and it is not what "
                    "the last iteration passed on"
                )
        return given

    def _results(self) -> list[Ref]:
        results: list[Ref] = []
        for _, place in self._carried:
            last = self._ref(self.count - 1, place)
            results.append(last if last not in results else self._new(last))
        return [*results, *self._collected.values()]

    def _ref(self, number: int, place: Place) -> Ref:
        found: Ref = self.record.calls[self.start + number * self.period + place[0]].results[place[1]]
        return found

    def _new(self, like: Ref) -> Ref:
        self.types.append(self.types[like.number])
        return Ref(len(self.types) - 1)

    # What Python asked in between

    def _check_between(self) -> None:
        """Python read nothing in the rounds, and sizes compared in the same way in each."""
        for read in self.record.reads:
            if self.start < read.after < self.end:
                raise NotRounds(f"{read.source}: Python reads the content of a tensor in an iteration")
        notes: list[tuple[int, Source | None, tuple[Any, ...]]] = []
        notes += [(loss.after, loss.source, (loss.number,)) for loss in self.record.losses]
        notes += [(c.after, c.source, (c.left, c.right)) for c in self.record.conditions]
        for after, source, numbers in notes:
            if self.start < after <= self.end and counts_rounds(*numbers):
                raise NotRounds(f"{source}: Python compares the index of the iteration, or looks something up by it")
        asked: list[list[Any]] = [[] for _ in range(self.count)]
        for condition in self.record.conditions:
            if self.start < condition.after <= self.end:
                number = (condition.after - self.start - 1) // self.period
                asked[number].append((condition.source, condition.op, condition.outcome))
        if any(other != asked[0] for other in asked[1:-1]):
            raise NotRounds("a condition on sizes has another outcome in some iterations")

    def _check_behind(self) -> None:
        for condition in self.record.conditions:
            if condition.after > self.end:
                self._last((condition.left, condition.right), condition.source)
        for read in self.record.reads:
            self._last(read.of, read.source)

    def _with_notes(self, record: Record, length: int, first: int, begins: int) -> Record:
        """Notes of the first round stay, in the body, which so many calls begin; those of the other rounds say the
        same. The ``first`` losses are those before the loop."""

        def moved(notes: Sequence[Any], first: int) -> list[Any]:
            """Notes from the first one on that stand where the loop begins are in the loop."""
            found = []
            for place, note in enumerate(notes):
                if note.after < self.start or (note.after == self.start and place < first):
                    found.append(note)
                elif note.after <= self.start + self.period:
                    found.append(replace(note, after=note.after + begins))
                elif note.after >= self.end:
                    found.append(replace(note, after=note.after - self.end + self.start + length))
            return found

        conditions, reads = (moved(notes, len(notes)) for notes in (record.conditions, record.reads))
        losses = moved(record.losses, first)
        losses = [loss for loss in losses if self._made.keys().isdisjoint(tensors_in(loss.number))]
        decisions = moved(record.decisions, len(record.decisions))
        return replace(record, conditions=conditions, reads=reads, losses=losses, decisions=decisions)
