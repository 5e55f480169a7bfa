"""``torch.cond`` and ``while_loop`` in a recorded model: their blocks stand in the record, between marks.

A branch is ``IF`` (the condition, and which of the two blocks comes first), the calls of that block, ``ELSE`` (its
results), the calls of the other, and ``END_IF`` (its results), which gives the results of the whole. A loop is ``LOOP``
(the condition, and what is carried at first), whose results are those values in one iteration, and ``END_LOOP``
(whether it goes on, and the values for the next iteration).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.control_flow import own_tensors, while_loop
from onnxport.capture.model.refusals import REFUSALS
from onnxport.capture.model.state import WriteGuard
from onnxport.capture.model.structure import Structure, flatten
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.calls.writes import Writes
from onnxport.capture.record.numbers.carriers import CARRIERS, number_of
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import Call, Number, Record, Ref
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import raised_at, running_line
from onnxport.errors import CaptureError, ExportError, UnsupportedOperatorError
from onnxport.graph.ir import Source

NUMBERS = (bool, int, float)


@contextlib.contextmanager
def inside(recorder: Recording, *, undone: bool) -> Iterator[None]:
    """Record calls as those of a block; if it is to be ``undone``, its writes to the model's tensors are taken back."""
    writes = Writes(undone)
    recorder.writes.append(writes)
    drawing = compat.random_state() if undone else contextlib.nullcontext()
    try:
        with drawing, recorder.mode:
            yield
    finally:
        recorder.writes.pop()
        writes.end(recorder.values)


@dataclass
class Side:
    """What a branch returns: ``refs`` has the value of each leaf that a branch can give, tensors and numbers."""

    leaves: list[Any]
    structure: Structure
    refs: list[Ref | None]


def cond(recorder: Recording, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """The results of the branch that the data take, which the record has as those of an ``If``.

    The other branch runs first, as if it had not; where it cannot, and the condition follows from sizes alone,
    these decide, as they do without a record.
    """
    functions = true_fn, false_fn
    source = running_line()
    condition = recorder.ref(pred) if isinstance(pred, torch.Tensor) else _compared(recorder, pred, source)
    if condition is None:
        with recorder.mode:
            return functions[not pred](*operands)
    taken = 0 if _outcome(pred) else 1
    other = 1 - taken
    before = _Position(recorder.record)
    _mark(recorder, Mark.IF, (condition, other), [], source)
    try:
        with inside(recorder, undone=True):
            sides = {other: _side(recorder, functions[other], operands)}
    except ExportError:
        raise
    except REFUSALS as error:
        before.restore()
        if depends_on_content(recorder.record, condition):
            raise CaptureError(
                f"{raised_at(error) or source or 'the model'}: torch.cond: both branches run while the model is "
                f"recorded, and the one for a condition that is {bool(taken)} does not take data for which it is "
                f"{not taken}: {type(error).__name__}: {error}"
            ) from error
        with recorder.mode:
            return functions[0 if pred else 1](*operands)
    middle = _mark(recorder, Mark.ELSE, (), [], source)
    with inside(recorder, undone=False):
        sides[taken] = _side(recorder, functions[taken], operands)
    _check(source, sides[0], sides[1])
    return _joined(recorder, sides[taken], sides[other], middle, source)


def cond_on_sizes(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """``torch.cond`` with a plain predicate, of which torch calls one branch, where it compares sizes."""
    recorder: Any = STATE.listener
    if type(pred) is not bool or recorder is None or not recorder.is_active():
        return NotImplemented
    conditions = recorder.record.conditions
    if not conditions or conditions[-1].source != running_line():
        return NotImplemented
    return cond(recorder, pred, true_fn, false_fn, operands)


def _compared(recorder: Recording, pred: Any, source: Source | None) -> Number | None:
    """The comparison of sizes that a plain predicate comes from: the last one made, on the line of the call."""
    conditions = recorder.record.conditions
    last = conditions[-1] if conditions else None
    if last is None or last.source != source or last.after != len(recorder.record.calls) or last.outcome is not pred:
        return None
    decisions = recorder.record.decisions
    if decisions and decisions[-1].noted[1] == len(conditions) - 1:
        return None  # a number that data decide: both sides are recorded as those of an ``if`` are
    conditions.pop()
    return Number(last.outcome, last.op, (last.left, last.right))


def _outcome(pred: Any) -> bool:
    with compat.dispatch.unseen():
        return bool(pred)


def _side(recorder: Recording, function: Callable[..., Any], operands: Sequence[Any]) -> Side:
    leaves, structure = flatten(function(*operands))
    # A branch may return what it is given, or one tensor twice; its results are others.
    leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return Side(leaves, structure, [_value(recorder, leaf) for leaf in leaves])


def _value(recorder: Recording, leaf: Any) -> Ref | None:
    if isinstance(leaf, torch.Tensor):
        return recorder.ref(leaf)
    if type(leaf) in NUMBERS or type(leaf) in CARRIERS:
        return recorder.ref(torch.tensor(leaf))
    return None


def _joined(recorder: Recording, taken: Side, other: Side, middle: Call, source: Source | None) -> Any:
    """The results of the branch that is taken, after the branch."""
    indices = [
        index
        for index, (leaf, beside) in enumerate(zip(taken.leaves, other.leaves, strict=True))
        if isinstance(leaf, torch.Tensor) or isinstance(beside, torch.Tensor) or not _is_same(leaf, beside)
    ]
    middle.args = ([other.refs[index] for index in indices],)
    end = _mark(recorder, Mark.END_IF, ([taken.refs[index] for index in indices],), [], source)
    leaves = list(taken.leaves)
    for index in indices:
        if not isinstance(leaves[index], torch.Tensor):
            with compat.dispatch.unseen():
                leaves[index] = torch.tensor(number_value(leaves[index]))
        end.results.append(recorder.values.new(leaves[index]))
    return taken.structure.unflatten(leaves)


def _is_same(left: Any, right: Any) -> bool:
    plain = type(left) not in CARRIERS and type(right) not in CARRIERS
    return left is right or (plain and bool(left == right))


def number_value(leaf: Any) -> Any:
    number = number_of(leaf)
    return number.value if isinstance(number, Number) else number


def _check(source: Source | None, first: Side, second: Side) -> None:
    where = source or "the model"
    if first.structure.names != second.structure.names:
        raise CaptureError(
            f"{where}: the branches of torch.cond return results of different structure: "
            f"{len(first.leaves)} and {len(second.leaves)} values, {list(first.structure.names)} and "
            f"{list(second.structure.names)}"
        )
    for left, right, *refs in zip(first.leaves, second.leaves, first.refs, second.refs, strict=True):
        if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
            if None not in refs or _is_same(left, right):
                continue
            raise CaptureError(f"{where}: the branches of torch.cond return {left!r} and {right!r}; give tensors")
        if left.dtype != right.dtype or left.dim() != right.dim():
            raise CaptureError(
                f"{where}: the branches of torch.cond return different tensors, of shape "
                f"{_shape(left)} and {_shape(right)}, {left.dtype} and {right.dtype}. Give both the same number of "
                "dimensions and the same dtype."
            )


def _shape(tensor: torch.Tensor) -> list[int]:
    with compat.dispatch.unaided():
        return list(tensor.shape)


def loop(
    recorder: Recording,
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
    **_: Any,
) -> Any:
    """What a ``while_loop`` gives, which the record has as the results of a ``Loop``.

    One iteration is recorded, and its effects are undone; then the loop runs unrecorded.
    """
    source = running_line()
    with recorder.mode:
        firsts = [_tensor(value) for value in carried_inputs]
        begins = _tensor(cond_fn(*firsts, *additional_inputs))
    given = recorder.ref(begins), [recorder.ref(first) for first in firsts]
    with compat.dispatch.unseen():
        entries = [first.clone() for first in firsts]
    _mark(recorder, Mark.LOOP, given, [recorder.values.new(entry) for entry in entries], source)
    with inside(recorder, undone=True):
        made = [_tensor(value) for value in own_tensors(tuple(body_fn(*entries, *additional_inputs)))]
        goes_on = _tensor(cond_fn(*made, *additional_inputs))
    before, after = ([(tensor.dtype, _shape(tensor)) for tensor in tensors] for tensors in (firsts, made))
    if before != after:
        raise CaptureError(
            f"{source or 'the model'}: an iteration of while_loop returns other shapes or dtypes than it was given: "
            f"{after}, not {before}. Return the same in every iteration."
        )
    end = _mark(recorder, Mark.END_LOOP, (recorder.ref(goes_on), [recorder.ref(tensor) for tensor in made]), [], source)
    results: tuple[torch.Tensor, ...]
    guarded: Any = recorder
    with compat.dispatch.unseen(), WriteGuard(guarded):
        results = while_loop(cond_fn, body_fn, tuple(firsts), additional_inputs)
    end.results += [recorder.values.new(result) for result in results]
    return results


def _tensor(value: Any) -> torch.Tensor:
    """A number that a loop carries is a tensor in a record."""
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


def higher_order(
    recorder: Recording,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    others: Mapping[str, Callable[..., Any]],
) -> Any:
    """A call of an operator that is given functions; ``others`` record those that are made of loops."""
    name = function.__name__
    if name == compat.higher_order.COND:
        return cond(recorder, *args, **kwargs)
    if name == compat.higher_order.WHILE_LOOP:
        return loop(recorder, *args, **kwargs)
    if name in others:
        return others[name](recorder, *args, **kwargs)
    if name in compat.higher_order.OTHERS:
        raise UnsupportedOperatorError(
            f"{running_line() or 'the model'}: the operator torch.ops.higher_order.{name} has no translation; write "
            "this with tensor operations, torch.cond, while_loop or a @torch.jit.script function"
        )

    def recorded(argument: Any) -> Any:
        """Of what the operator calls, the calls are those of the model."""
        if isinstance(argument, (torch.Tensor, type)) or not callable(argument):
            return argument

        def call(*given: Any, **named: Any) -> Any:
            with compat.dispatch.seen_again(), recorder.mode:
                return argument(*given, **named)

        return call

    with compat.dispatch.unseen():
        return function(*map(recorded, args), **{name: recorded(given) for name, given in kwargs.items()})


class _Position:
    """How far a record had got, to go back there."""

    def __init__(self, record: Record) -> None:
        self._lists: list[list[Any]] = [record.calls, record.reads, record.conditions, record.losses]
        self._lengths = list(map(len, self._lists))

    def restore(self) -> None:
        for entries, length in zip(self._lists, self._lengths, strict=True):
            del entries[length:]


def _mark(recorder: Recording, mark: Mark, args: tuple[Any, ...], results: list[Any], source: Source | None) -> Call:
    call = Call(mark, args, {}, results, source, recorder.scope)
    recorder.record.calls.append(call)
    return call


def depends_on_content(record: Record, condition: Any) -> bool:
    """Whether what a condition is computed from includes the content of an input, not only sizes."""
    made = {ref.number: call for call in record.calls for ref in call.results if isinstance(ref, Ref)}
    inputs = {ref.number for ref in record.inputs}
    waiting, seen = [condition], set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, (list, tuple)):
            waiting += current
        elif isinstance(current, Number) and current.op not in ("size", "numel", "stride"):
            waiting += current.operands
        elif isinstance(current, Ref) and current.number not in seen:
            seen.add(current.number)
            if current.number in inputs:
                return True
            call = made.get(current.number)
            if call is not None:
                waiting += [*call.args, *call.kwargs.values()]
    return False
