"""Tensors that are taken apart along an axis. How many parts there are may follow a dynamic axis.

Where all parts are joined again, nothing being done to them, the whole is taken. Where a model uses some of them, each
is taken from the whole by itself. Which ones those are may follow their number, as the last one does: that is a number
whose expression Python dropped.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.record.record import Call, Loss, Number, Record, Ref, tensors_in

SELECT, SLICE = torch.ops.aten.select.int, torch.ops.aten.slice.Tensor
UNBIND, SPLIT = torch.ops.aten.unbind.int, torch.ops.aten.split.Tensor
CHUNK = torch.ops.aten.chunk.default
# The call that takes an item of a list which a loop made: the list, the index.
ITEM = "onnxport::item"


class Parts:
    """The tensors that were taken apart, as long as their first part is there."""

    def __init__(self) -> None:
        self._wholes: dict[int, tuple[torch.Tensor, int, list[weakref.ref[torch.Tensor]]]] = {}

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any], parts: Sequence[torch.Tensor]) -> None:
        if not args or not parts:
            return
        key = id(parts[0])
        references = [weakref.ref(parts[0], lambda _: self._wholes.pop(key, None)), *map(weakref.ref, parts[1:])]
        self._wholes[key] = args[0], _dim(args, kwargs), references

    def joined(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
        """What joining all parts of a tensor in their order gives; None for anything else."""
        parts = args[0] if args else None
        if not isinstance(parts, (list, tuple)) or not parts or id(parts[0]) not in self._wholes or "out" in kwargs:
            return None
        whole, axis, references = self._wholes[id(parts[0])]
        if len(parts) != len(references) or any(ref() is not part for ref, part in zip(references, parts, strict=True)):
            return None
        rank = whole.dim() if name == "stack" else whole.dim() - 1
        target = _dim(args, kwargs) % max(rank, 1)
        moved = whole.movedim(axis, target)
        # Joining copies.
        return moved.clone() if name == "stack" else moved.flatten(target, target + 1).clone()


def _dim(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    dim: int = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    return dim


def with_single_parts(record: Record) -> Record:
    """The record with calls of ``unbind`` and ``split`` replaced where some of their results are not used, and those of
    ``chunk`` where only one is."""
    if not any(_is_taken_apart(call, record) for call in record.calls):
        return record
    needed = set(used(record))
    calls: list[Call] = []
    moved: list[int] = []  # where each call stands now
    losses = list(record.losses)
    for call in record.calls:
        moved.append(len(calls))
        parts = list(_parts(call, needed, record)) if _is_taken_apart(call, record) else None
        is_whole = parts is None or len(parts) == len(call.results) or (call.op is CHUNK and len(parts) > 1)
        calls += [call] if is_whole or parts is None else parts
        if parts and not (is_whole and call.op is CHUNK):
            source, dim = parts[0].args[0], parts[0].args[1]
            # Which parts these are is told by how many there are, so that stands before them.
            loss = Loss("parts", _count(call, source, dim, record), call.source, len(moved) - 1, {})
            if not any(_is_same(loss, other) for other in losses):
                losses.append(loss)
    moved.append(len(calls))
    return replace(
        record,
        calls=calls,
        losses=sorted((replace(loss, after=moved[loss.after]) for loss in losses), key=lambda loss: loss.after),
        reads=[replace(read, after=moved[read.after]) for read in record.reads],
        conditions=[replace(condition, after=moved[condition.after]) for condition in record.conditions],
    )


def _is_taken_apart(call: Call, record: Record) -> bool:
    if call.op is CHUNK:
        return type(_divisor(call)) is int and 0 not in record.types[call.args[0].number][1]
    return call.op is UNBIND or call.op is SPLIT


def _divisor(call: Call) -> Any:
    """The number of chunks, or the length of each part of a split."""
    return call.args[1] if len(call.args) > 1 else call.kwargs["chunks" if call.op is CHUNK else "split_size"]


def _is_same(loss: Loss, other: Loss) -> bool:
    """Whether two notes tell of the same tensor that was taken apart."""
    pair = loss.number, other.number
    return loss.how == other.how and all(n.op == "size" for n in pair) and pair[0].operands == pair[1].operands


def _parts(call: Call, needed: set[int], record: Record) -> Iterator[Call]:
    """The parts that are used, each by a call of its own; none where a length is no plain number."""
    given = [*call.args, *(call.kwargs[name] for name in ("split_size", "chunks", "dim") if name in call.kwargs)]
    source, *numbers = given
    rank = len(record.types[source.number][1])
    for index, ref in enumerate(call.results):
        if ref.number not in needed:
            continue
        if call.op is UNBIND:
            dim = numbers[0] % rank if numbers else 0
            args: tuple[Any, ...] = (source, dim, index)
        else:
            dim = numbers[1] % rank if len(numbers) > 1 else 0
            length = numbers[0] if call.op is SPLIT else _length(source, dim, numbers[0], record)
            bounds = [_times(length, index), _times(length, index + 1)]
            args = (source, dim, *bounds)
        yield replace(
            call, op=SELECT if call.op is UNBIND else SLICE, args=args, kwargs={}, results=[ref], returns_list=False
        )


def _length(source: Ref, dim: int, chunks: int, record: Record) -> Number:
    """How long the pieces are, of which there are as many or fewer."""
    size = Number(record.types[source.number][1][dim], "size", (source, dim))
    more = Number(size.value + chunks - 1, "add", (size, chunks - 1))
    return Number(more.value // chunks, "floordiv", (more, chunks))


def _count(call: Call, source: Ref, dim: int, record: Record) -> Number:
    """How many parts there are."""
    size = Number(record.types[source.number][1][dim], "size", (source, dim))
    if call.op is UNBIND:
        return size
    length = _divisor(call)
    if call.op is CHUNK:
        length = _length(source, dim, length, record)
    plain = length.value if isinstance(length, Number) else length
    more = Number(size.value + plain - 1, "add", (size, Number(plain - 1, "sub", (length, 1))))
    return Number(len(call.results), "floordiv", (more, length))


def _times(length: Any, times: int) -> Any:
    if isinstance(length, Number):
        return Number(length.value * times, "mul", (length, times))
    return length * times


def used(record: Record) -> Iterator[int]:
    """The numbers of the tensors that something reads."""
    waiting: list[Any] = list(record.outputs)
    for call in record.calls:
        waiting += [*call.args, *call.kwargs.values(), getattr(call.op, "arguments", ())]
    waiting += [read.of for read in record.reads] + [loss.number for loss in record.losses]
    waiting += [part for condition in record.conditions for part in (condition.left, condition.right)]
    return tensors_in(waiting)
