"""The coarsest dtype that each value was rounded to: a float32 that is computed from a float16 is as coarse."""

from __future__ import annotations

import torch

from onnxport.graph.ir import Block, Value


def roundings(block: Block) -> dict[Value, torch.dtype]:
    """For each value the coarsest floating-point dtype among its own and those it is computed from, if any."""
    found: dict[Value, torch.dtype] = {}
    for value in block.inputs:
        _note(found, value, [])
    for node in block.nodes:
        given = [found[value] for value in node.values() if value in found]
        for output in node.outputs:
            _note(found, output, given)
    return found


def _note(found: dict[Value, torch.dtype], value: Value, given: list[torch.dtype]) -> None:
    inexact = value.is_tensor and (value.dtype.is_floating_point or value.dtype.is_complex)
    own = [value.dtype.to_real()] if inexact else []
    if own or given:
        found[value] = max([*own, *given], key=lambda dtype: torch.finfo(dtype).eps)
