"""Tensors that Python takes apart along an axis and joins again, nothing being done to the parts.

How many parts there are may follow a dynamic axis, and a trace has a fixed number of them: it is given the
whole instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.reader import Record, Trace

JOINS = frozenset({"cat", "concat", "concatenate", "stack"})
UNPACK = "prim::ListUnpack"
TAKEN_APART = frozenset({"unbind"})
SPLITS = frozenset({"aten::split"})
# What gives a list of the parts of a tensor, of which each can be had by itself.
CUTS = SPLITS | {"aten::unbind"}


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
    """The traces without the parts that nobody reads, where their number differs; those that are read are cut out of
    the whole one by one."""
    counts = [[len(record.outputs) for record in trace.records if record.kind == UNPACK] for trace in traces]
    return traces if counts.count(counts[0]) == len(counts) else [_without_unused(trace) for trace in traces]


def _without_unused(trace: Trace) -> Trace:
    used = set(trace.outputs)
    wholes = {record.outputs[0]: record for record in trace.records if record.kind in CUTS}
    constants = dict(trace.constants)
    kept = []
    for record in reversed(trace.records):
        is_part = record.kind == UNPACK or record.kind in CUTS
        if is_part and not any(output in used for output in record.outputs):
            continue
        whole = wholes.get(record.inputs[0]) if record.kind == UNPACK else None
        cuts = None if whole is None else _cuts(record, whole, used, constants)
        for one in [record] if cuts is None else reversed(cuts):
            kept.append(one)
            used.update(one.inputs)
    return replace(trace, records=kept[::-1], constants=constants)


def _cuts(unpack: Record, whole: Record, used: Collection[int], constants: dict[int, Any]) -> list[Record] | None:
    """The parts that are read, as slices of the whole or as elements of it; None where all of them are."""
    length, dim = [None, *map(constants.get, whole.inputs[1:])][-2:]
    read = [place for place, output in enumerate(unpack.outputs) if output in used]
    if len(read) == len(unpack.outputs) or type(dim) is not int or (whole.kind in SPLITS and type(length) is not int):
        return None

    def constant(number: int) -> int:
        name = -len(constants) - 1  # the tracer's numbers are positive
        constants[name] = number
        return name

    found = []
    for place in read:
        kind, overload, numbers = "aten::select", "int", [dim, place]
        if whole.kind in SPLITS and isinstance(length, int):
            kind, overload, numbers = "aten::slice", "Tensor", [dim, place * length, (place + 1) * length, 1]
        found.append(
            replace(
                unpack,
                kind=kind,
                overload=overload,
                inputs=(whole.inputs[0], *map(constant, numbers)),
                outputs=(unpack.outputs[place],),
                types=(unpack.types[place],),
            )
        )
    return found


def _dim(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    dim: int = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    return dim
