"""Lists of the parts of a tensor of which a model uses some: each is taken from the whole by itself.

How many parts there are may follow a dynamic axis, and which of them a model uses may follow their number, as the last
one does: that is a number whose expression Python dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.record.record import Call, Choice, Loss, Number, Record, Ref

SELECT, SLICE = torch.ops.aten.select.int, torch.ops.aten.slice.Tensor
UNBIND, SPLIT = torch.ops.aten.unbind.int, torch.ops.aten.split.Tensor


def with_single_parts(record: Record) -> Record:
    """The record with calls of ``unbind`` and ``split`` replaced where some of their results are not used."""
    if not any(call.op is UNBIND or call.op is SPLIT for call in record.calls):
        return record
    used = set(_used(record))
    calls: list[Call] = []
    moved: list[int] = []  # where each call stands now
    losses = list(record.losses)
    for call in record.calls:
        moved.append(len(calls))
        parts = list(_parts(call, used, record)) if call.op is UNBIND or call.op is SPLIT else None
        if parts is None or len(parts) == len(call.results):
            calls.append(call)
            continue
        calls += parts
        if parts:
            source, dim = parts[0].args[0], parts[0].args[1]
            length = Number(record.types[source.number][1][dim], "size", (source, dim))
            losses.append(Loss("parts", length, call.source, len(moved) - 1, {}))
    moved.append(len(calls))
    return replace(
        record,
        calls=calls,
        losses=[replace(loss, after=moved[loss.after]) for loss in losses],
        reads=[replace(read, after=moved[read.after]) for read in record.reads],
        conditions=[replace(condition, after=moved[condition.after]) for condition in record.conditions],
    )


def _parts(call: Call, used: set[int], record: Record) -> Iterator[Call]:
    """The parts that are used, each by a call of its own; none where a length is no plain number."""
    given = [*call.args, *(call.kwargs[name] for name in ("split_size", "dim") if name in call.kwargs)]
    source, *numbers = given
    rank = len(record.types[source.number][1])
    for place, ref in enumerate(call.results):
        if ref.number not in used:
            continue
        if call.op is UNBIND:
            dim = numbers[0] % rank if numbers else 0
            args: tuple[Any, ...] = (source, dim, place)
        else:
            length, dim = numbers[0], numbers[1] % rank if len(numbers) > 1 else 0
            bounds = [_times(length, place), _times(length, place + 1)]
            args = (source, dim, *bounds)
        yield replace(
            call, op=SELECT if call.op is UNBIND else SLICE, args=args, kwargs={}, results=[ref], returns_list=False
        )


def _times(length: Any, times: int) -> Any:
    if isinstance(length, Number):
        return Number(length.value * times, "mul", (length, times))
    return length * times


def _used(record: Record) -> Iterator[int]:
    """The numbers of the tensors that something reads."""
    waiting: list[Any] = list(record.outputs)
    for call in record.calls:
        waiting += [*call.args, *call.kwargs.values(), getattr(call.op, "arguments", ())]
    waiting += [read.of for read in record.reads] + [loss.number for loss in record.losses]
    waiting += [part for condition in record.conditions for part in (condition.left, condition.right)]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, Ref):
            yield current.number
        elif isinstance(current, (list, tuple)):
            waiting += current
        elif isinstance(current, dict):
            waiting += current.values()
        elif isinstance(current, Number) and id(current) not in seen:
            seen.add(id(current))
            waiting += current.operands
        elif isinstance(current, Choice):
            waiting += current.options.values()
