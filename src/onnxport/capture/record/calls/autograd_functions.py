"""Autograd Functions in a recorded model that stay one call: those with a ``symbolic``, and others that are kept.

Their forward is recorded too, between a mark and the call itself: it tells the sizes of the results. The calls in it
are no part of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.arguments import instances_in
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.calls.writes import Writes
from onnxport.capture.record.numbers import carriers
from onnxport.capture.record.record import Call
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import running_line
from onnxport.errors import CaptureError


@dataclass(frozen=True, eq=False)
class FunctionCall:
    """The call of an autograd Function. The arguments of the record's call are those of ``apply``, and then the results
    of the forward that was recorded.

    ``arguments`` are the plain ones, None for tensors; ``tensors`` tells which results are tensors, ``shared`` which of
    the tensors that it is given have memory that a result shares.
    """

    function: Any
    arguments: tuple[Any, ...]
    tensors: tuple[bool, ...]
    shared: tuple[int, ...]

    @property
    def identity(self) -> Any:
        return self.function


def call_function(recorder: Recording, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the forward of the Function gives, as the results of one call."""
    source, record = running_line(), recorder.record
    _check_nested_tensors(recorder, function, args)
    given = tuple(recorder.recorded(argument) for argument in args)
    record.calls.append(Call(Mark.FUNCTION, (), {}, [], source, recorder.scope))
    reads, losses = len(record.reads), len(record.losses)
    writes = Writes(undone=False)
    recorder.writes.append(writes)
    try:
        returned = compat.autograd_functions.forward(function, args, kwargs)
    finally:
        recorder.writes.pop()
        writes.end(recorder.values)
    # What the forward reads is its own matter: the graph has the call, not the number.
    del record.reads[reads:], record.losses[losses:]
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    inner = [recorder.ref(tensor) for tensor in tensors]
    call = FunctionCall(
        function,
        tuple(None if isinstance(a, torch.Tensor) else _plain(a) for a in args),
        tuple(isinstance(result, torch.Tensor) for result in results),
        tuple(_shared(args, tensors)),
    )
    # An argument that was written to, and returned, is the result from then on.
    unwritten = [argument for argument in args if id(argument) not in writes.refs]
    made = [_own(tensor, [*unwritten, *tensors[:index]]) for index, tensor in enumerate(tensors)]
    refs = [recorder.values.new(tensor) for tensor in made]
    record.calls.append(Call(call, (*given, inner), {}, list(refs), source, recorder.scope))
    rest = iter(made)
    results = [next(rest) if isinstance(result, torch.Tensor) else _plain(result) for result in results]
    return type(returned)(results) if isinstance(returned, (tuple, list)) else results[0]


def _own(tensor: torch.Tensor, others: list[Any]) -> torch.Tensor:
    """A result that is an argument, or another result, as a tensor of its own on the same memory."""
    if not any(tensor is other for other in others):
        return tensor
    with compat.dispatch.unseen(), compat.dispatch.unaided():
        return tensor.view_as(tensor)


def _plain(argument: Any) -> Any:
    if type(argument) in (list, tuple):
        return type(argument)(map(_plain, argument))
    return carriers.plain(argument)


def _shared(args: tuple[Any, ...], results: list[torch.Tensor]) -> Iterator[int]:
    memories = set(map(compat.storage_key, results))
    for index, tensor in enumerate(argument for argument in args if isinstance(argument, torch.Tensor)):
        if compat.storage_key(tensor) in memories:
            yield index


def _check_nested_tensors(recorder: Recording, function: Any, args: tuple[Any, ...]) -> None:
    """Refuse a tensor that the model computes where it is hidden in another argument.

    A symbolic function would take it for a constant.
    """
    for argument in args:
        if isinstance(argument, torch.Tensor):
            continue
        for tensor in instances_in(argument, torch.Tensor):
            ref = recorder.values.known(tensor)
            if ref is not None and ref.number not in recorder.record.constants:
                raise CaptureError(
                    f"{running_line() or 'the model'}: the autograd Function {function.__name__} is given a tensor "
                    f"inside a {type(argument).__name__}, where its symbolic function would take it for a constant. "
                    "Pass it to apply as an argument of its own."
                )
