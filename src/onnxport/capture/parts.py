"""Tensors that Python takes apart along an axis and joins again, nothing being done to the parts.

How many parts there are may follow a dynamic axis, and a trace has a fixed number of them: it is given the
whole instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.reader import Trace

JOINS = frozenset({"cat", "concat", "concatenate", "stack"})
UNPACK = "prim::ListUnpack"
TAKEN_APART = frozenset({"unbind"})


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


def without_unused_parts(traces: Sequence[Trace]) -> Sequence[Trace]:
    """The traces without the parts that nobody reads, where their number differs."""
    counts = [[len(record.outputs) for record in trace.records if record.kind == UNPACK] for trace in traces]
    return traces if counts.count(counts[0]) == len(counts) else [_without_unused(trace) for trace in traces]


def _without_unused(trace: Trace) -> Trace:
    used = set(trace.outputs)
    kept = []
    for record in reversed(trace.records):
        is_part = record.kind == UNPACK or record.kind.removeprefix("aten::") in TAKEN_APART
        if not is_part or any(output in used for output in record.outputs):
            kept.append(record)
            used.update(record.inputs)
    return replace(trace, records=kept[::-1])


def _dim(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    dim: int = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    return dim
