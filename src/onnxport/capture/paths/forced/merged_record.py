"""Merges forced runs into one record: the calls between a fork and its end become the branches of an ``If``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch

from onnxport.capture.paths.forced.forced_runs import ForcedRun, Fork
from onnxport.capture.paths.forced.rejoining import CannotMerge, is_alike_number, writes
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import (
    TENSOR_OF,
    Call,
    Condition,
    Decision,
    Loss,
    Number,
    Read,
    Record,
    Ref,
    Site,
    rewritten,
    tensors_in,
)

Note: TypeAlias = "Read | Condition | Loss"


@dataclass(eq=False)
class Branch:
    """A fork as an ``If``. ``results`` maps the pair of values on both branches to the result."""

    fork: Fork
    condition: Any
    own: list[Any] = field(default_factory=list)  # calls, notes and branches of the first run
    other: list[Any] = field(default_factory=list)
    results: dict[tuple[Ref, Ref], Ref] = field(default_factory=dict)
    filled: tuple[list[Call], list[Call]] = field(default_factory=lambda: ([], []))  # numbers that become tensors


def joint(base: ForcedRun, loops: Collection[Site] = ()) -> Record:
    """One record of a run and all others that fork from it, with the conditions of loops."""
    return _Joint(base, loops).record()


class _Joint:
    def __init__(self, base: ForcedRun, loops: Collection[Site]) -> None:
        self._base, self._loops = base, loops
        self._types = list(base.record.types)
        self._constants = dict(base.record.constants)
        self._known_constants = {id(tensor): Ref(number) for number, tensor in self._constants.items()}
        self._refs: dict[tuple[int, int], Ref] = {}  # by the ways and their numbers
        self._written: dict[int, Ref] = {}  # what a call gave that wrote to a tensor: that tensor
        self._branches: dict[Fork, Branch] = {}
        self._interned: dict[Any, Number] = {}
        self._translated: dict[Any, Any] = {}
        self._chosen: dict[Any, Number] = {}  # numbers that are others on two sides
        self._drawn = dict(base.record.drawn)
        self._seeded = set(base.record.seeded)
        self._counts = False
        self._notes: dict[ForcedRun, dict[int, list[Note]]] = {}

    def record(self) -> Record:
        base = self._base
        items = self._items(base, 0, len(base.events))
        items += self._notes_at(base, len(base.events))
        outputs = self._given(base, len(base.events), lambda way, index: list(way.record.outputs))
        made = replace(
            base.record, types=self._types, constants=self._constants, outputs=outputs, drawn=self._drawn,
            seeded=frozenset(self._seeded), counts=self._counts,
            calls=[], reads=[], conditions=[], losses=[], decisions=[],
        )  # fmt: skip
        self._lay(items, made)
        _check_scopes(made)
        return made

    # The items of the record, in order

    def _items(self, way: ForcedRun, index: int, end: int) -> list[Any]:
        self._counts |= way.record.counts
        found: list[Any] = []
        while index < end:
            event = way.events[index]
            fork = way.fork_at(index)
            if fork is not None:
                if fork.decision.site in self._loops:
                    found.append(replace(fork.decision, condition=self._given(way, index, _condition)))
                found.append(self._branch(fork))
                index = fork.end
                continue
            if isinstance(event, Call):
                found += self._notes_at(way, index)
                found.append(self._call(way, index, event))
            elif event.site in self._loops:
                found.append(replace(event, condition=self._given(way, index, _condition)))
            index += 1
        return found

    def _branch(self, fork: Fork) -> Branch:
        condition = self._given(fork.way, fork.begin, _condition)
        branch = self._branches[fork] = Branch(fork, condition)
        branch.own = self._items(fork.way, fork.begin + 1, fork.end) + self._asked_alone(fork)
        branch.other = self._items(fork.other, fork.begin + 1, fork.other_end)
        branch.other += self._asked_at_end(fork)
        return branch

    def _asked_at_end(self, fork: Fork) -> list[Note]:
        """The conditions that are evaluated after the last call of the other branch, and not after the fork."""
        asked = [
            [note for note in self._notes_at(way, _next_call(way, end)) if isinstance(note, Condition)]
            for way, end in ((fork.way, fork.end), (fork.other, fork.other_end))
        ]
        known = {(note.source, note.op, note.outcome) for note in asked[0]}
        known.update(_compared_from(fork.other, fork.other_end))
        return [note for note in asked[1] if (note.source, note.op, note.outcome) not in known]

    def _asked_alone(self, fork: Fork) -> list[Note]:
        """The conditions behind the last call of a side that only this side asks, as a loop does that the other side
        leaves: they do not stand behind the fork."""
        way, index = fork.way, _next_call(fork.way, fork.end)
        later = [other.decision.noted[1] for other in way.forks if fork.begin < other.begin < fork.end]
        first, end = fork.decision.noted[1], min(later, default=len(way.record.conditions))
        asked = [note for note in way.record.conditions[first:end] if note in self._raw_notes(way).get(index, ())]
        behind = self._raw_notes(fork.other).get(_next_call(fork.other, fork.other_end), ())
        known = {(note.source, note.op) for note in behind if isinstance(note, Condition)}
        alone = [note for note in asked if (note.source, note.op) not in known]
        found = self._translated_notes(way, alone, fork.end - 1)
        self._raw_notes(way)[index] = [note for note in self._raw_notes(way).get(index, ()) if note not in alone]
        return found

    def _call(self, way: ForcedRun, index: int, call: Call) -> Call:
        args = self._given(way, index, lambda way, index: _call_at(way, index).args)
        kwargs = {
            name: self._given(way, index, lambda way, index, name=name: _call_at(way, index).kwargs[name])  # type: ignore[misc]
            for name in call.kwargs
        }
        results = [self._own(way, ref.number) if isinstance(ref, Ref) else ref for ref in call.results]
        if writes(call.op) and results and isinstance(results[0], Ref) and isinstance(args[0], Ref):
            self._written[results[0].number] = self._memory(args[0])
        for ref, made in zip(call.results, results, strict=True):
            if isinstance(ref, Ref) and ref.number in way.record.drawn:
                self._drawn[made.number] = way.record.drawn[ref.number]
                self._seeded |= {made.number} if ref.number in way.record.seeded else set()
        return replace(call, args=args, kwargs=kwargs, results=results)

    def _notes_at(self, way: ForcedRun, index: int) -> list[Note]:
        """The reads, comparisons and losses before an event, except for conditions that became branches."""
        return self._translated_notes(way, self._raw_notes(way).get(index, ()), index)

    def _raw_notes(self, way: ForcedRun) -> dict[int, list[Note]]:
        if way not in self._notes:
            self._notes[way] = _by_events(way)
        return self._notes[way]

    def _translated_notes(self, way: ForcedRun, notes: Sequence[Note], index: int) -> list[Note]:
        """Notes as the joint record has them, at an event."""
        found: list[Note] = []
        for note in notes:

            def seen(given: Any) -> Any:
                return self._own_argument(way, given, lambda number: self._seen(way, number, index))

            if isinstance(note, Read):
                found.append(replace(note, of=seen(note.of)))
            elif isinstance(note, Loss):
                found.append(replace(note, number=seen(note.number)))
            else:
                found.append(replace(note, left=seen(note.left), right=seen(note.right)))
        return found

    def _lay(self, items: Sequence[Any], record: Record) -> None:
        """Append calls and notes to the record."""
        for item in items:
            if isinstance(item, Branch):
                self._lay_branch(item, record)
            elif isinstance(item, Call):
                record.calls.append(item)
            elif isinstance(item, Decision):
                noted = (len(record.reads), len(record.conditions), len(record.losses))
                record.decisions.append(replace(item, after=len(record.calls), noted=noted))
            else:
                notes: Any = record.reads if isinstance(item, Read) else record.losses
                notes = record.conditions if isinstance(item, Condition) else notes
                notes.append(replace(item, after=len(record.calls)))

    def _lay_branch(self, branch: Branch, record: Record) -> None:
        decision = branch.fork.decision
        index = decision.source, decision.scope
        pairs = list(branch.results)
        # Whether the first block is the one for a true condition.
        record.calls.append(Call(Mark.IF, (branch.condition, 0 if decision.outcome else 1), {}, [], *index))
        for side, items in enumerate((branch.own, branch.other)):
            self._lay([*items, *branch.filled[side]], record)
            given = [pair[side] for pair in pairs]
            results = list(branch.results.values()) if side else []
            record.calls.append(Call(Mark.END_IF if side else Mark.ELSE, (given,), {}, results, *index))

    # Arguments of calls

    def _given(self, way: ForcedRun, index: int, pick: Callable[[ForcedRun, int], Any]) -> Any:
        """An argument of an event, with the results of all forks that end before it."""
        found = self._own_argument(way, pick(way, index), lambda number: self._own(way, number))
        for fork in way.closed(index):
            found = self._merged(fork, found, self._given(fork.other, fork.beside(index), pick))
        return found

    def _own(self, way: ForcedRun, number: int) -> Ref:
        """The tensor of the merged record for a tensor of a run; runs share the tensors from before their fork."""
        key = id(way), number
        if key not in self._refs:
            self._refs[key] = self._new_or_known(way, number)
        return self._refs[key]

    def _new_or_known(self, way: ForcedRun, number: int) -> Ref:
        fork = way.origin
        if fork is None:
            return Ref(number)
        if number < way.shared:
            return self._seen(fork.way, number, fork.begin)
        if number in fork.matches:
            return self._own(fork.way, fork.matches[number])
        tensor = way.record.constants.get(number)
        if tensor is not None and id(tensor) in self._known_constants:
            return self._known_constants[id(tensor)]
        made = self._new(*way.record.types[number])
        if tensor is not None:
            self._constants[made.number] = tensor
            self._known_constants[id(tensor)] = made
        return made

    def _new(self, dtype: torch.dtype, shape: tuple[int, ...]) -> Ref:
        self._types.append((dtype, shape))
        return Ref(len(self._types) - 1)

    def _seen(self, way: ForcedRun, number: int, index: int) -> Ref:
        """A tensor of a run as it is at an event, after forks on whose other branch it is a different one."""
        found = self._own(way, number)
        for fork in way.closed(index):
            partner = fork.partner(number)
            if partner is not None:
                found = self._merged(fork, found, self._seen(fork.other, partner, fork.other_end))
        return found

    def _own_argument(self, way: ForcedRun, given: Any, ref: Callable[[int], Ref]) -> Any:
        if isinstance(given, Ref):
            return ref(given.number)
        if isinstance(given, (list, tuple)):
            return type(given)([self._own_argument(way, part, ref) for part in given])
        return rewritten(given, lambda o: ref(o.number), self._as_one) if isinstance(given, Number) else given

    def _as_one(self, number: Number, operands: tuple[Any, ...]) -> Number:
        """The same number for the same operands."""
        if number.op == "round":
            return number
        parts = tuple(
            o if isinstance(o, Ref) else (type(o), o) if isinstance(o, (int, float, str, tuple)) else id(o)
            for o in operands
        )
        key = number.op, parts or (type(number.value), number.value)
        same = all(x is y or x == y for x, y in zip(operands, number.operands, strict=True))
        return self._interned.setdefault(key, number if same else Number(number.value, number.op, operands))

    # Values that differ between the two branches of a fork

    def _merged(self, fork: Fork, own: Any, other: Any) -> Any:
        if own is other:
            return own
        if isinstance(own, Ref) and isinstance(other, Ref):
            memory = self._memory(own)
            if own == other or memory == self._memory(other):
                return own if own == other else memory  # written to in a branch: functionalisation follows the content
            return self._result(fork, own, other)
        if isinstance(own, (list, tuple)):
            return type(own)([self._merged(fork, *pair) for pair in zip(own, other, strict=True)])
        if isinstance(own, Number) and isinstance(other, Number) and is_alike_number(own, other):
            try:
                pairs = zip(own.operands, other.operands, strict=True)
                return self._as_one(own, tuple(self._merged_operand(fork, *pair) for pair in pairs))
            except CannotMerge:
                pass
        elif not isinstance(own, Number) and not isinstance(other, Number) and (own == other or own != own):
            return own
        return self._merged_number(fork, own, other)

    def _merged_operand(self, fork: Fork, own: Any, other: Any) -> Any:
        """An operand of a number. Indices and axes cannot be chosen at run time, so they have to be equal."""
        if isinstance(own, (Ref, Number)) and isinstance(other, (Ref, Number)):
            return self._merged(fork, own, other)
        if own != other:
            raise CannotMerge("its sides read other elements or sizes")
        return own

    def _memory(self, ref: Ref) -> Ref:
        return self._written.get(ref.number, ref)

    def _result(self, fork: Fork, own: Ref, other: Ref) -> Ref:
        (dtype, shape), (other_dtype, _) = self._types[own.number], self._types[other.number]
        if dtype != other_dtype:
            raise CannotMerge("its two sides give different dtypes")
        results = self._branches[fork].results
        if (own, other) not in results:
            results[own, other] = self._new(dtype, shape)
        return results[own, other]

    def _merged_number(self, fork: Fork, own: Any, other: Any) -> Number:
        value = own.value if isinstance(own, Number) else own
        if type(value) not in (int, float):
            raise CannotMerge("its sides give other flags")
        key = id(fork), *(id(part) if isinstance(part, Number) else part for part in (own, other))
        if key not in self._chosen:
            pair = (self._as_tensor(fork, side, part) for side, part in enumerate((own, other)))
            self._chosen[key] = Number(value, "item", (self._result(fork, *pair),))
        return self._chosen[key]

    def _as_tensor(self, fork: Fork, side: int, given: Any) -> Ref:
        value = given.value if isinstance(given, Number) else given
        dtype = torch.int64 if type(value) is int else torch.float64
        made = self._new(dtype, ())
        if isinstance(given, Number):
            filling: tuple[Any, ...] = [given], [], dtype
            call = Call(TENSOR_OF, filling, {}, [made], fork.decision.source, fork.decision.scope)
            self._branches[fork].filled[side].append(call)
        else:
            self._constants[made.number] = torch.tensor(given, dtype=dtype)
        return made


def _condition(way: ForcedRun, index: int) -> Any:
    event = way.events[index]
    assert isinstance(event, Decision)
    return event.condition


def _compared_from(way: ForcedRun, index: int) -> Iterator[tuple[Any, ...]]:
    """The comparisons of a run from an event on, as they are noted: these are evaluated after its fork."""
    for decision, at in zip(way.record.decisions, way.places, strict=True):
        if at >= index and isinstance(decision.condition, Number):
            yield decision.source, decision.condition.op, decision.outcome


def _call_at(way: ForcedRun, index: int) -> Call:
    event = way.events[index]
    assert isinstance(event, Call)
    return event


def _next_call(way: ForcedRun, index: int) -> int:
    """The index of the next call."""
    calls = (at for at, event in enumerate(way.events) if at >= index and isinstance(event, Call))
    return next(calls, len(way.events))


def _by_events(way: ForcedRun) -> dict[int, list[Note]]:
    """The notes of a run by the index of the call that follows them."""
    calls = [position for position, event in enumerate(way.events) if isinstance(event, Call)] + [len(way.events)]
    decided = [fork.decision for fork in way.forks]
    decided += [] if way.origin is None else [way.record.decisions[way.origin.index]]
    notes: list[Sequence[Note]] = [way.record.reads, way.record.conditions, way.record.losses]
    of_branches = _notes_of(decided)
    first = (0, 0, 0) if way.origin is None else way.origin.decision.noted
    found: dict[int, list[Note]] = {}
    for kind, start in enumerate(first):
        for index, note in enumerate(notes[kind]):
            if index >= start and (kind, index) not in of_branches:
                found.setdefault(calls[note.after], []).append(note)
    return found


def _notes_of(decisions: Sequence[Decision]) -> set[tuple[int, int]]:
    """The notes of conditions that became branches: the last read before a decision, or the next comparison."""
    return {
        (1, decision.noted[1]) if isinstance(decision.condition, Number) else (0, decision.noted[0] - 1)
        for decision in decisions
    }


def _check_scopes(record: Record) -> None:
    """Check that values computed in a branch are not used outside of it, unless they are results of it."""
    known = {ref.number for ref in record.inputs} | set(record.constants)
    around: list[set[int]] = []
    for call in record.calls:
        if call.op is Mark.ELSE or call.op is Mark.END_IF:
            _check_known(call, known)
            known = set(around[-1]) if call.op is Mark.ELSE else around.pop()
        else:
            _check_known(call, known)
        if call.op is Mark.IF:
            around.append(set(known))
        known |= {ref.number for ref in call.results if isinstance(ref, Ref)}
    _check_known(Call(None, tuple(record.outputs), {}, [], None, ""), known)


def _check_known(call: Call, known: set[int]) -> None:
    if not known.issuperset(tensors_in((*call.args, *call.kwargs.values()))):
        raise CannotMerge(
            f"{call.source or 'the model'}: the value used here is computed on one side of the condition only"
        )
