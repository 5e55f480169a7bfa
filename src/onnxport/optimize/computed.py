"""The content of values that depend on constants alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from onnxport.optimize.context import Array, Context
from onnxport.optimize.evaluate import EVALUATORS, evaluate

# A weight this large takes a tenth of a second to compute, and while it is kept beside the original the export no
# longer fits where the model fits.
COMPUTED_BYTES = 64 * 1024 * 1024


def computed(
    context: Context, value: ir.Value | None, known: dict[ir.Value, Array | None] | None = None
) -> Array | None:
    """What a value is, whichever steps lead to it from constants; None where one of them is not in `evaluate`.

    ``known`` has what was computed before, and is given what is computed now.
    """
    known = {} if known is None else known
    left = [] if value is None else [value]
    while left:
        if left[-1] not in known:
            before = _unknown_before(context, left[-1], known)
            if before is not None:
                left.append(before)
                continue
            known[left[-1]] = _content(context, left[-1], known)
        left.pop()
    return None if value is None else known[value]


def declared_bytes(value: ir.Value) -> float:
    """The size of a value by its shape and type; infinite if they are unknown."""
    if value.shape is None or value.dtype is None:
        return math.inf
    sizes: list[int] = [dim for dim in value.shape if isinstance(dim, int)]
    return math.prod(sizes) * value.dtype.itemsize if len(sizes) == len(value.shape) else math.inf


def _step(context: Context, value: ir.Value) -> ir.Node | None:
    """The node that computes a value, if it is one that can be computed at export."""
    node = value.producer()
    if node is None or context.tensor(value) is not None or node.domain != "" or node.op_type not in EVALUATORS:
        return None
    return node if node.inputs and len(node.outputs) == 1 and declared_bytes(value) <= COMPUTED_BYTES else None


def _unknown_before(context: Context, value: ir.Value, known: Mapping[ir.Value, Array | None]) -> ir.Value | None:
    """A value that has to be known before another can be computed."""
    node = _step(context, value)
    given = [] if node is None else [before for before in node.inputs if before is not None]
    if any(before in known and known[before] is None for before in given):
        return None
    return next((before for before in given if before not in known), None)


def _content(context: Context, value: ir.Value, known: Mapping[ir.Value, Array | None]) -> Array | None:
    tensor = context.tensor(value)
    if tensor is not None:
        return None if tensor.dtype.is_string() or tensor.dtype.bitwidth < 8 else tensor.numpy()
    node = _step(context, value)
    if node is None or any(before is not None and known.get(before) is None for before in node.inputs):
        return None
    return evaluate(node, [None if before is None else known[before] for before in node.inputs])
