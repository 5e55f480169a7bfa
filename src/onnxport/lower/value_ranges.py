"""What is known about elements without running the model: values without NaN, and the range of integers."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxport.lower.value import Value

# Operators that move elements without changing them.
MOVES = frozenset(("Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))
# Sizes, and indices along an axis.
COUNTS = frozenset(("ArgMax", "ArgMin", "NonZero", "Shape", "Size"))
# The results of these are small if their integer arguments are.
STEPS = frozenset(("Abs", "Add", "Div", "Max", "Min", "Mod", "Neg", "Range", "Sub", "Where"))
NARROW = (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.UINT8,
          ir.DataType.UINT16)  # fmt: skip


def may_be_nan(x: Value) -> bool:
    """Whether NaN is possible: not in integers, in constants and weights without one, and in casts of integers."""
    if not x.is_float:
        return False
    if x.data is not None:
        return bool(x.data.isnan().any())
    node = _unmoved(x.ir).producer() if x.ir is not None else None
    return node is None or node.op_type != "Cast" or not _is_integer(node.inputs[0])


def fits_32_bits(x: Value) -> bool:
    """Whether integers are known to fit into 32 bits: sizes, indices, integers of narrower types, and their sums.

    No tensor has so many elements that a sum of sizes would be larger.
    """
    if x.dtype != torch.int64 or x.size is not None:
        return True
    return _is_small(x.data) if x.data is not None else _fits(x.ir)


def is_count(x: Value) -> bool:
    """Whether integers are known not to be negative: sizes, indices or bools."""
    return x.ir is not None and _is_count(_unmoved(x.ir))


def _unmoved(value: ir.Value) -> ir.Value:
    """The value with these elements before they were moved."""
    while (node := value.producer()) is not None and node.op_type in MOVES and node.inputs[0] is not None:
        value = node.inputs[0]
    return value


def _is_count(value: ir.Value) -> bool:
    node = value.producer()
    if node is None:
        return False
    if node.op_type == "Cast":
        source = node.inputs[0]
        return source is not None and source.dtype in (ir.DataType.BOOL, ir.DataType.UINT8)
    return node.op_type in COUNTS or (node.op_type == "TopK" and value is node.outputs[1])


def _fits(value: ir.Value | None) -> bool:
    pending, seen = [value], set()
    while pending:
        value = pending.pop()
        if value is None or value in seen or _is_narrow(value) or _is_count(value):
            continue
        seen.add(value)
        node = value.producer()
        if node is None or node.op_type not in MOVES | STEPS | {"Cast"}:
            return False
        if node.op_type == "Cast" and not _is_integer(node.inputs[0]):
            return False
        pending += node.inputs if node.op_type in STEPS else node.inputs[:1]
    return True


def _is_narrow(value: ir.Value) -> bool:
    if value.const_value is not None and value.dtype == ir.DataType.INT64:
        return _is_small(torch.from_numpy(value.const_value.numpy()))
    return value.dtype in NARROW


def _is_small(data: torch.Tensor) -> bool:
    limits = torch.iinfo(torch.int32)
    return data.numel() == 0 or (int(data.min()) >= limits.min and int(data.max()) <= limits.max)


def _is_integer(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is not None and not value.dtype.is_floating_point()
