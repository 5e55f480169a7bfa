"""Tensors that a call caches outside of the modules, in a global or a closure: later calls use them as constants.

Restoring the state of the model does not clear such a cache. If one run computed a tensor from its input, and a run
at other sizes reuses it, the file has it as a constant, as every later call of the model does, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Sizes
from onnxport.capture.build.contents import SHAPE_ONLY
from onnxport.capture.model.refusals import REFUSALS_ELSEWHERE, is_ours
from onnxport.capture.paths.merge import is_alike
from onnxport.capture.paths.path_runs import PathRun
from onnxport.capture.paths.runs import Runs
from onnxport.capture.record.record import Call, Loss, Number, Record, Ref

MESSAGE = (
    "{}: what is computed here from the input is kept outside of the model's modules, and later calls use it as it is: "
    "the file holds it as a constant, with what the first call of the export made of its input. Compute it in each "
    "call, hold it in the module (register_buffer), or fill the cache with what it should be before the export."
)


def as_later_calls(runs: Runs, first: PathRun) -> tuple[PathRun, list[str]]:
    """The first run, repeated if later runs reuse something that it cached; and warnings about that."""
    record = first.run.record
    if not any(kept.tensor() is not None for kept in first.run.kept):
        return first, []
    followed = _from_inputs(record, lambda ref: True)
    kept = {id(tensor): k.ref for k in first.run.kept if (tensor := k.tensor()) is not None and k.ref in followed}
    for later in _later(runs, first.point) if kept else ():
        same = {kept[id(tensor)] for tensor in later.constants.values() if id(tensor) in kept}
        stale = same & _from_inputs(record, _is_other(record, later))
        if stale:
            again = PathRun(runs.record(first.point), first.point)
            lines = dict.fromkeys(call.source for call in record.calls if not stale.isdisjoint(_refs(call)))
            return again, [MESSAGE.format(source or "the model") for source in lines]
    return first, []


def _later(runs: Runs, start: Sizes) -> Iterator[Record]:
    """Runs at other sizes; where no axis is dynamic, one of the example."""
    for point in rows_at.doubled(runs.axes, start) or [start]:
        try:
            record = runs.record(point).record
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
        else:
            yield record


def _is_other(first: Record, later: Record) -> Callable[[Ref], bool]:
    """Returns a function that says whether a value has another shape in a later run, which skips some calls."""
    found = dict(zip(first.inputs, later.inputs, strict=True))
    calls = iter(first.calls)
    for call in later.calls:
        same = next((earlier for earlier in calls if is_alike(earlier, call)), None)
        if same is None:
            break
        found.update(zip(_refs(same), _refs(call), strict=False))

    def is_other(ref: Ref) -> bool:
        return ref not in found or first.types[ref.number][1] != later.types[found[ref].number][1]

    return is_other


def _from_inputs(record: Record, is_other: Callable[[Ref], bool]) -> set[Ref]:
    """The values that are computed from the content of an input, or from the sizes of a value of another shape."""
    found = set(record.inputs)
    numbers: dict[int, bool] = {}
    dropped: set[Any] = set()

    def follows(part: Any) -> bool:
        if isinstance(part, Ref):
            return part in found
        if isinstance(part, (list, tuple)):
            return any(map(follows, part))
        if isinstance(part, Number):
            return _number_follows(part, numbers, found, is_other)
        return type(part) is int and part in dropped

    for index, call in enumerate(record.calls):
        given = [*call.args, *call.kwargs.values()]
        # This may be a number whose expression the same function dropped earlier.
        losses = [loss for loss in record.losses if loss.after <= index and _in_one_function(loss, call)]
        dropped = {loss.number.value for loss in losses if loss.number.value > 1 and follows(loss.number)}
        if getattr(getattr(call.op, "_schema", None), "name", None) in SHAPE_ONLY:
            shaped = any(is_other(part) for part in given if isinstance(part, Ref))
            given = [part for part in given if not isinstance(part, Ref)]
        else:
            shaped = False
        if shaped or any(map(follows, given)):
            found.update(_refs(call))
    return found


def _number_follows(
    number: Number, known: dict[int, bool], values: Collection[Ref], is_other: Callable[[Ref], bool]
) -> bool:
    """The same for a number; iterative, as expressions may be deep."""
    waiting = [number]
    while waiting:
        current = waiting[-1]
        inner = [part for part in current.operands if isinstance(part, Number)]
        missing = [part for part in inner if id(part) not in known]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        refs = [part for part in current.operands if isinstance(part, Ref)]
        is_size = current.op in ("size", "numel", "stride")
        own = any(is_other(ref) if is_size else ref in values for ref in refs)
        known[id(current)] = own or any(known[id(part)] for part in inner)
    return known[id(number)]


def _in_one_function(loss: Loss, call: Call) -> bool:
    if loss.source is None or call.source is None:
        return False
    return (loss.source.file, loss.source.function) == (call.source.file, call.source.function)


def _refs(call: Call) -> list[Ref]:
    return [result for result in call.results if isinstance(result, Ref)]
