"""What a call leaves outside of the modules, in a global or a closure: to the calls after it, it is a constant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from onnxport.capture.reader import Record, Trace
from onnxport.graph.ir import Source

if TYPE_CHECKING:
    from onnxport.capture.together import Run


def warnings(first: Run, later: Sequence[Run], inputs: int) -> list[str]:
    """What to tell of tensors that the first call computed from its inputs and that all later ones take as they are."""
    return [
        f"{source or 'the model'}: what is computed here from the input is kept outside of the model's modules, and "
        "later calls use it as it is: the file holds it as a constant, with what the first call of the export made of "
        "its input. Compute it in each call, hold it in the module (register_buffer), or fill the cache with what it "
        "should be before the export."
        for source in dict.fromkeys(_kept(first, later, inputs))
    ]


def _kept(first: Run, later: Sequence[Run], inputs: int) -> Iterator[Source | None]:
    """The lines that made such tensors."""
    made = {output: record for record in first.trace.records for output in record.outputs}
    given = set(first.trace.inputs[:inputs])
    sizes = {value.value for value in first.frozen if value.rule is not None}
    for old, place in _matched(first.trace, later[0].trace):
        for position, number in enumerate(old.inputs):
            kept = number in made and _is_constant([run.trace for run in later], place, position)
            if kept and _depends(number, made, given, first.trace, sizes):
                yield made[number].source


def _matched(old: Trace, new: Trace) -> Iterator[tuple[Record, int]]:
    """The records of a trace that an earlier one has, too, beside others: the earlier one and the place in the new."""
    records = iter(old.records)
    for place, record in enumerate(new.records):
        found = next((r for r in records if (r.kind, len(r.inputs), r.source) == _key(record)), None)
        if found is None:
            return
        yield found, place


def _key(record: Record) -> tuple[str, int, Source | None]:
    return record.kind, len(record.inputs), record.source


def _is_constant(traces: Sequence[Trace], place: int, position: int) -> bool:
    """Whether an argument is one tensor in all traces, at whatever size they were made."""
    contents = [
        trace.constants.get(trace.records[place].inputs[position]) if place < len(trace.records) else None
        for trace in traces
    ]
    first = contents[0]
    return isinstance(first, torch.Tensor) and all(
        isinstance(other, torch.Tensor) and other.shape == first.shape and torch.equal(other, first)
        for other in contents
    )


def _depends(
    number: int, made: dict[int, Record], given: Collection[int], trace: Trace, sizes: Collection[object]
) -> bool:
    """Whether a value was computed from the content of an input, or from sizes, also from those that Python read."""
    waiting, seen = [number], {number}
    while waiting:
        current = waiting.pop()
        content = trace.constants.get(current)
        if current in given or (type(content) is int and content > 1 and content in sizes):
            return True
        for source in made[current].inputs if current in made else ():
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return False
