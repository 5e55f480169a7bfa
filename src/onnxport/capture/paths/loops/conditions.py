"""Conditions that end loops."""

from __future__ import annotations

from typing import Any

import torch

from onnxport.capture.paths.loops.notes import NotALoop
from onnxport.capture.record.record import Call, Decision, Number, Ref

LOGICAL_NOT = torch.ops.aten.logical_not.default


def negated(first: Decision, later: Any, types: list[Any]) -> tuple[list[Any], list[Call]]:
    """The opposite of a condition before the loop, ``first``, and in it, with the calls that compute them.

    The ``types`` of values get those of the new ones.
    """
    found: list[Any] = []
    calls: list[Call] = []
    for condition in (first.condition, later):
        if isinstance(condition, Number):
            if condition.op not in ("eq", "ne"):
                raise NotALoop(f"{first.source}: a comparison of numbers ends the loop")
            op = "ne" if condition.op == "eq" else "eq"
            found.append(Number(not condition.value, op, condition.operands))
            continue
        types.append((torch.bool, types[condition.number][1]))
        found.append(Ref(len(types) - 1))
        calls.append(Call(LOGICAL_NOT, (condition,), {}, [found[-1]], first.source, first.scope))
    return found, calls
