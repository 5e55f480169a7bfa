"""Numbers behind a loop that Python counted in its iterations: they follow from how many iterations there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.build.python_tensors import MAX_NUMBERS
from onnxport.capture.paths.forced.rejoining import CannotMerge
from onnxport.capture.paths.forced.replay import Place, differences
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import RECORDED_ITERATIONS, TENSOR_OF, Call, Number, Record, Ref, Site


def with_counts(record: Record, others: Mapping[int, Record], sites: Collection[Site]) -> Record:
    """The record with such numbers as expressions; ``others`` are runs with other numbers of iterations."""
    found: dict[Place, dict[int, Any]] = {}
    for count, run in others.items():
        for place, (mine, theirs) in (differences(record, run) or {}).items():
            found.setdefault(place, {RECORDED_ITERATIONS: mine})[count] = theirs
    if not found:
        return record
    ends = [index for index, call in enumerate(record.calls) if call.op is Mark.END_LOOP]
    if len(sites) > 1 or len(ends) != 1 or any(len(values) <= len(others) for values in found.values()):
        raise CannotMerge("a number follows from the iterations of several loops, or of some of them")
    return _Counted(record, ends[0], found).record()


class _Counted:
    def __init__(self, record: Record, end: int, found: Mapping[Place, Mapping[int, Any]]) -> None:
        self._calls, self._outputs = list(record.calls), list(record.outputs)
        self._record, self._types, self._found = record, list(record.types), found
        self._count = self._new(torch.int64, ())
        self._calls[end] = replace(self._calls[end], kwargs={"count": self._count})

    def record(self) -> Record:
        made: dict[int, list[Call]] = {}  # calls that fill tensors with such numbers, by the call that uses them
        for (index, path), values in self._found.items():
            holder = self._outputs if index == len(self._calls) else self._calls[index]
            filled = made.setdefault(index, [])
            if isinstance(holder, list):
                self._outputs = _put(holder, path, self._argument(values, None, filled))
            else:
                args = _put(holder.args, path, self._argument(values, holder, filled))
                self._calls[index] = replace(holder, args=args)
        record = replace(self._record, calls=self._calls, outputs=self._outputs, types=self._types)
        for index in sorted(made, reverse=True):
            record = _inserted(record, index, made[index])
        return record

    def _argument(self, values: Mapping[int, Any], call: Call | None, filled: list[Call]) -> Any:
        first = values[RECORDED_ITERATIONS]
        if not isinstance(first, torch.Tensor):
            return self._number(values)
        if first.numel() > MAX_NUMBERS:
            raise CannotMerge("a tensor follows from the number of iterations of the loop")
        flat = {count: tensor.flatten().tolist() for count, tensor in values.items()}
        numbers = [self._number({count: row[index] for count, row in flat.items()}) for index in range(first.numel())]
        made = self._new(first.dtype, tuple(first.shape))
        source, scope = (None, "") if call is None else (call.source, call.scope)
        filled.append(Call(TENSOR_OF, (numbers, list(first.shape), first.dtype), {}, [made], source, scope))
        return made

    def _number(self, values: Mapping[int, Any]) -> Any:
        """A number that grows by the same step in each iteration."""
        value = values[RECORDED_ITERATIONS]
        others = {count: other for count, other in values.items() if count != RECORDED_ITERATIONS}
        nearest = max(others)
        step = (value - others[nearest]) / (RECORDED_ITERATIONS - nearest)
        step = int(step) if type(value) is int and step == int(step) else step
        first = value - RECORDED_ITERATIONS * step
        if any(first + count * step != other for count, other in others.items()) or type(first) is not type(value):
            raise CannotMerge("a number behind the loop does not grow by a constant step in its iterations")
        if step == 0:
            return value
        count = Number(RECORDED_ITERATIONS, "item", (self._count,))
        return Number(value, "add", (Number(value - first, "mul", (count, step)), first))

    def _new(self, dtype: torch.dtype, shape: tuple[int, ...]) -> Ref:
        self._types.append((dtype, shape))
        return Ref(len(self._types) - 1)


def _put(given: Any, path: Sequence[int], value: Any) -> Any:
    """Arguments with another one at a place."""
    if not path:
        return value
    parts = list(given)
    parts[path[0]] = _put(parts[path[0]], path[1:], value)
    return type(given)(parts)


def _inserted(record: Record, index: int, calls: list[Call]) -> Record:
    """The record with further calls in front of one."""

    def moved(notes: Sequence[Any]) -> list[Any]:
        return [replace(note, after=note.after + len(calls)) if note.after > index else note for note in notes]

    return replace(
        record,
        calls=[*record.calls[:index], *calls, *record.calls[index:]],
        conditions=moved(record.conditions),
        reads=moved(record.reads),
        losses=moved(record.losses),
        decisions=moved(record.decisions),
    )
