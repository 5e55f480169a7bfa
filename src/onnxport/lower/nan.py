"""Where a NaN can be, and where none can."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.lower.value import Value

# What is a number stays one.
MOVES = frozenset(("Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))


def may_be_nan(x: Value) -> bool:
    """Not integers, constants and weights without one, and what was cast from integers or is a part of such."""
    if not x.is_float:
        return False
    if x.data is not None:
        return bool(x.data.isnan().any())
    source = x.ir
    while source is not None and (node := source.producer()) is not None:
        if node.op_type not in MOVES:
            return node.op_type != "Cast" or not _is_integer(node.inputs[0])
        source = node.inputs[0]
    return True


def _is_integer(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is not None and not value.dtype.is_floating_point()
