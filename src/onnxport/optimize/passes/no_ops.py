"""Removal of nodes that return their input unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import (
    Array,
    Context,
    differing_dims,
    has_argument,
    operand,
    permutation,
    produced_by,
    rank,
    same_shape,
)
from onnxport.optimize.rewrite import Rewrite, replacing, rewrite_nodes

_INT64_MAX = 2**63 - 1
_SUMS = ("BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul")
_MOVEMENT = ("Expand", "Gather", "GatherElements", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


class RemoveNoOps(ir.passes.InPlacePass):
    """Removes nodes whose result is one of their inputs, bit for bit.

    Rules:
        1. Identity; Concat, Sum, Mean, Max, Min of one input.
        2. Cast to the type the value has.
        3. Transpose that keeps the order of axes.
        4. Reshape, Flatten, Expand to the shape the value has; Tile by ones.
        5. Slice over the full range; Pad by zeros.
        6. Dropout in inference whose mask nobody reads; not while training.
        7. A neutral operand of one element that does not broadcast: x*1, x/1, x**1, x-0, x+0, and, or, xor.
           Exact for floats too: x+(-0.0) and x-0.0 go. x+0.0 turns -0.0 into 0.0 and stays, unless x is a sum of
           products, whose zeros are positive, or moved and divided from one, as where Python starts a sum with 0.
        8. Where with a constant condition that picks one side throughout, if that side has the full shape.

    Preserves: every value, including NaN, and signed zeros but for rule 7; names of graph outputs. An Identity remains
    where a graph output would otherwise be an input, an initializer, a value of an outer graph, or another output.
    (onnx_ir's IdentityEliminationPass renames an output when it is the source of another one.)
    """

    def __init__(self, *, training: bool = False) -> None:
        super().__init__()
        self._training = training

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = rewrite_nodes(Context(model, self._training), _RULES)
        return ir.passes.PassResult(model, modified=modified)


def _single_input(context: Context, node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _cast(context: Context, node: ir.Node) -> ir.Value | None:
    value = node.inputs[0]
    return value if value is not None and value.dtype == node.attributes["to"].as_int() else None


def _transpose(context: Context, node: ir.Node) -> ir.Value | None:
    perm = permutation(node)
    return node.inputs[0] if perm is not None and list(perm) == sorted(perm) else None


def _reshape(context: Context, node: ir.Node) -> ir.Value | None:
    value = node.inputs[0]
    # The number of elements stays, so one dimension follows from the others.
    differing = differing_dims(value, node.outputs[0])
    if differing is not None and differing <= 1 and _no_empty_dim(value):
        return value
    target = context.ints(node, "shape", 1)
    if target is None or value is None or value.shape is None or len(target) != len(value.shape):
        return None
    zero_copies = not node.attributes.get_int("allowzero", 0)
    keeps = [
        (size == 0 and zero_copies) or size == dim for size, dim in zip(target, value.shape, strict=True) if size != -1
    ]
    return value if all(keeps) and len(keeps) >= len(target) - 1 and _no_empty_dim(value) else None


def _no_empty_dim(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and 0 not in value.shape.dims


def _flatten(context: Context, node: ir.Node) -> ir.Value | None:
    value = node.inputs[0]
    if rank(value) != 2:
        return None
    return value if node.attributes.get_int("axis", 1) in (1, -1) else None


def _expand(context: Context, node: ir.Node) -> ir.Value | None:
    value = node.inputs[0]
    if same_shape(value, node.outputs[0]):
        return value
    target = context.ints(node, "shape", 1)
    if target is None or value is None or value.shape is None or len(target) > len(value.shape):
        return None
    dims = value.shape.dims[len(value.shape) - len(target) :]
    return value if all(size == 1 or size == dim for size, dim in zip(target, dims, strict=True)) else None


def _tile(context: Context, node: ir.Node) -> ir.Value | None:
    repeats = context.ints(node, "repeats", 1)
    return node.inputs[0] if repeats is not None and all(count == 1 for count in repeats) else None


def _slice(context: Context, node: ir.Node) -> ir.Value | None:
    value = node.inputs[0]
    starts, ends = context.ints(node, "starts", 1), context.ints(node, "ends", 2)
    if starts is None or ends is None or any(start != 0 for start in starts):
        return None
    axes = context.ints(node, "axes", 3) if has_argument(node, "axes", 3) else tuple(range(len(starts)))
    steps = context.ints(node, "steps", 4) if has_argument(node, "steps", 4) else (1,) * len(starts)
    if axes is None or steps is None or any(step != 1 for step in steps):
        return None
    return value if all(_reaches(value, axis, end) for axis, end in zip(axes, ends, strict=True)) else None


def _reaches(value: ir.Value | None, axis: int, end: int) -> bool:
    """Whether a slice up to `end` takes in the whole axis."""
    if end == _INT64_MAX:
        return True
    size = None if value is None or value.shape is None else value.shape[axis]
    return isinstance(size, int) and end >= size


def _pad(context: Context, node: ir.Node) -> ir.Value | None:
    pads = context.ints(node, "pads", 1)
    return node.inputs[0] if pads is not None and not any(pads) else None


def _dropout(context: Context, node: ir.Node) -> ir.Value | None:
    if context.training or any(mask.uses() or mask.is_graph_output() for mask in node.outputs[1:]):
        return None
    if (training_mode := operand(node, 2)) is not None:
        flag = context.array(training_mode)
        if flag is None or flag.any():
            return None
    return node.inputs[0]


def _is_one(item: Any) -> bool:
    return bool(item == 1)


def _is_false(item: Any) -> bool:
    return not item


def _adds_nothing(item: Any) -> bool:
    is_float = not np.issubdtype(item.dtype, np.integer)
    return bool(item == 0) and (not is_float or bool(np.signbit(item.astype(np.float32))))


def _add(context: Context, node: ir.Node) -> ir.Value | None:
    """The operand that is left as it is by a zero of the other one."""
    return _add_minus_zero(context, node) or _add_zero_to_sum(context, node)


def _is_zero(item: Any) -> bool:
    return bool(item == 0)


def _is_positive(array: Array | None) -> bool:
    return array is not None and bool((array > 0).all())


def _is_sum(context: Context, value: ir.Value | None) -> bool:
    """Whether a value has no negative zero but for underflow: sums of products start at 0.0, and 0.0 + -0.0 is 0.0."""
    while (node := produced_by(value, *_MOVEMENT, "Div")) is not None:
        if node.op_type == "Div" and not _is_positive(context.array(node.inputs[1])):
            return False
        value = node.inputs[0]
    return produced_by(value, *_SUMS) is not None


def _add_zero_to_sum(context: Context, node: ir.Node) -> ir.Value | None:
    value = _add_any_zero(context, node)
    return value if _is_sum(context, value) else None


def _subtracts_nothing(item: Any) -> bool:
    return bool(item == 0) and not np.signbit(item.astype(np.float32))


def _neutral(is_neutral: Callable[[Any], bool], *, commutes: bool) -> Callable[[Context, ir.Node], ir.Value | None]:
    """The rule of a binary operator that leaves one operand as it is where the other is neutral."""

    def rule(context: Context, node: ir.Node) -> ir.Value | None:
        left, right = node.inputs
        for kept, other in ((left, right), (right, left))[: 1 + commutes]:
            array = context.array(other)
            if array is not None and array.size == 1 and _broadcasts_into(array, kept) and is_neutral(array.flat[0]):
                return kept
        return None

    return rule


_add_minus_zero = _neutral(_adds_nothing, commutes=True)
_add_any_zero = _neutral(_is_zero, commutes=True)


def _broadcasts_into(array: Array, value: ir.Value | None) -> bool:
    value_rank = rank(value)
    return array.ndim == 0 or (value_rank is not None and array.ndim <= value_rank)


def _where(context: Context, node: ir.Node) -> ir.Value | None:
    condition = context.array(node.inputs[0])
    if condition is None or condition.size == 0 or condition.any() != condition.all():
        return None
    chosen = node.inputs[1] if condition.all() else node.inputs[2]
    return chosen if same_shape(chosen, node.outputs[0]) else None


_RULES: Mapping[str, Sequence[Rewrite]] = {
    op_type: [replacing(rule)]
    for op_type, rule in {
        "Identity": _single_input,
        "Concat": _single_input,
        "Sum": _single_input,
        "Mean": _single_input,
        "Max": _single_input,
        "Min": _single_input,
        "Cast": _cast,
        "Transpose": _transpose,
        "Reshape": _reshape,
        "Flatten": _flatten,
        "Expand": _expand,
        "Tile": _tile,
        "Slice": _slice,
        "Pad": _pad,
        "Dropout": _dropout,
        "Mul": _neutral(_is_one, commutes=True),
        "Div": _neutral(_is_one, commutes=False),
        "Pow": _neutral(_is_one, commutes=False),
        "Add": _add,
        "Sub": _neutral(_subtracts_nothing, commutes=False),
        "And": _neutral(bool, commutes=True),
        "Or": _neutral(_is_false, commutes=True),
        "Xor": _neutral(_is_false, commutes=True),
        "Where": _where,
    }.items()
}
