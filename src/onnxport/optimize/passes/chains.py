"""Merging of consecutive nodes of one kind."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import (
    Context,
    has_argument,
    is_op,
    normalized,
    only_use,
    operand,
    permutation,
    produced_by,
    rank,
    same_dim,
    same_shape,
)
from onnxport.optimize.rewrite import Rewrite, add_initializer, become, bypass, replacing, rewrite_nodes, set_inputs

_REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
_SAME_ELEMENTS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class MergeChains(ir.passes.InPlacePass):
    """Replaces two nodes in a row by one or none, where that is exact.

    Rules:
        1. Cast of a Cast that loses nothing (bool to anything, int32 to int64, float16 to float32, ...) casts the
           original; back to the original type, both go.
        2. Transpose of a Transpose is one Transpose, or none.
        3. Reshape of a Reshape, Flatten, Squeeze, Unsqueeze or of a Transpose that moves nothing but axes of size 1
           reshapes the original; where a 0 of the target copies a dimension that differs in the original, only if
           all sizes of the result but one are known.
           Where it leads back to the shape that the value had further up, all of them go.
           Such a Transpose of a Reshape without other uses is one Reshape, if all its sizes but one are known.
        4. Squeeze undoes an Unsqueeze of the same axes, and the other way round.
        5. Unsqueeze of an Unsqueeze that nobody else reads is one Unsqueeze.
        6. Squeeze of a Transpose of an Unsqueeze that takes away the axes which that added is one Transpose.
        7. Relu, Abs, Floor, Ceil, Round, Sign twice is once; Neg, Not twice is nothing.
           Clip twice with the same bounds is once.
        8. Concat takes in what is concatenated along the same axis for nothing else, and leaves out what has no
           elements along it.
        9. Unsqueeze that puts back the axes which a reduction took away, for nobody else, is done by the reduction; so
           is Squeeze of the axes which it kept.
       10. Slice that takes one whole part out of a Concat, whose parts have known sizes, is that part.

    Preserves: every value bit for bit; names of graph outputs. The inner node stays while somebody else reads it.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), _RULES))


def _cast(context: Context, node: ir.Node) -> bool:
    inner = produced_by(node.inputs[0], "Cast")
    if inner is None or (source := inner.inputs[0]) is None or source.dtype is None:
        return False
    if not _is_lossless(source.dtype, ir.DataType(inner.attributes["to"].as_int())):
        return False
    if source.dtype == node.attributes["to"].as_int():
        return bypass(context, node, source)
    set_inputs(node, [source])
    return True


# For each type: the bits an integer needs, or those of a float's significand; and whether it is signed or a float.
_INTEGER_BITS = {
    ir.DataType.BOOL: (1, False),
    ir.DataType.UINT8: (8, False),
    ir.DataType.UINT16: (16, False),
    ir.DataType.UINT32: (32, False),
    ir.DataType.UINT64: (64, False),
    ir.DataType.INT8: (7, True),
    ir.DataType.INT16: (15, True),
    ir.DataType.INT32: (31, True),
    ir.DataType.INT64: (63, True),
}
_FLOAT_BITS = {ir.DataType.BFLOAT16: 8, ir.DataType.FLOAT16: 11, ir.DataType.FLOAT: 24, ir.DataType.DOUBLE: 53}
_WIDER_FLOATS = {
    ir.DataType.BFLOAT16: {ir.DataType.FLOAT, ir.DataType.DOUBLE},
    ir.DataType.FLOAT16: {ir.DataType.FLOAT, ir.DataType.DOUBLE},
    ir.DataType.FLOAT: {ir.DataType.DOUBLE},
}


def _is_lossless(source: ir.DataType, target: ir.DataType) -> bool:
    """Whether every value of `source` is one of `target`."""
    if source in _WIDER_FLOATS:
        return target in _WIDER_FLOATS[source]
    if source not in _INTEGER_BITS:
        return False
    bits, signed = _INTEGER_BITS[source]
    if target in _FLOAT_BITS:
        return bits <= _FLOAT_BITS[target]
    if target not in _INTEGER_BITS or target == ir.DataType.BOOL:
        return False
    target_bits, target_signed = _INTEGER_BITS[target]
    return bits <= target_bits and (target_signed or not signed)


def _transpose(context: Context, node: ir.Node) -> bool:
    inner = produced_by(node.inputs[0], "Transpose")
    if inner is None or (source := inner.inputs[0]) is None:
        return False
    inner_perm, outer_perm = permutation(inner), permutation(node)
    if inner_perm is None or outer_perm is None:
        return False
    perm = [inner_perm[axis] for axis in outer_perm]
    if perm == sorted(perm):
        return bypass(context, node, source)
    node.attributes["perm"] = ir.AttrInt64s("perm", perm)
    set_inputs(node, [source])
    return True


def _same_elements(value: ir.Value | None) -> ir.Node | None:
    """The producer of a value if it keeps the elements of its input in order."""
    node = produced_by(value, *_SAME_ELEMENTS, "Transpose")
    return node if node is None or node.op_type != "Transpose" or _keeps_order(node) else None


def _keeps_order(transpose: ir.Node) -> bool:
    perm, value = permutation(transpose), transpose.inputs[0]
    if perm is None or value is None or value.shape is None:
        return False
    moved = [axis for axis in perm if value.shape[axis] != 1]
    return moved == sorted(moved)


def _transposed_reshape(context: Context, node: ir.Node) -> bool:
    inner = produced_by(node.inputs[0], "Reshape")
    if inner is None or not only_use(inner.outputs[0]) or not _keeps_order(node):
        return False
    source = inner.inputs[0]
    return source is not None and _reshape_to_sizes(context, node, source)


def _reshape(context: Context, node: ir.Node) -> bool:
    inner = _same_elements(node.inputs[0])
    target = context.ints(node, "shape", 1)
    if inner is None or target is None or (source := inner.inputs[0]) is None:
        return False
    if not node.attributes.get_int("allowzero", 0):
        copied = [axis for axis, size in enumerate(target) if size == 0]
        if not all(_same_dim_at(source, inner.outputs[0], axis) for axis in copied):
            return _reshape_to_sizes(context, node, source)
    set_inputs(node, [source, node.inputs[1]])
    return True


def _reshape_to_sizes(context: Context, node: ir.Node, source: ir.Value) -> bool:
    """Reshape another value to the sizes that the result has, if all but one are known."""
    result = node.outputs[0]
    if result.shape is None or 0 in result.shape.dims or node.graph is None:
        return False
    target = [dim if isinstance(dim, int) else -1 for dim in result.shape]
    if target.count(-1) > 1:
        return False
    name = context.names.claim(f"{result.name}_shape")
    become(context, node, "Reshape", [source, add_initializer(node.graph, name, ir.Tensor(np.array(target)))])
    return True


def _reshaped_back(context: Context, node: ir.Node) -> ir.Value | None:
    """A value further up that has the shape of the result, with nothing in between but other shapes of it."""
    value = node.inputs[0]
    while (inner := _same_elements(value)) is not None:
        value = inner.inputs[0]
        if same_shape(value, node.outputs[0]):
            return value
    return None


def _concat(context: Context, node: ir.Node) -> bool:
    """Inline inputs that are concatenated along the same axis and have no other use."""
    inputs: list[ir.Value | None] = []
    for value in node.inputs:
        inner = produced_by(value, "Concat")
        inputs.extend(inner.inputs if inner is not None and _goes_on(inner) else [value])
    if len(inputs) == len(node.inputs):
        return False
    set_inputs(node, inputs)
    return True


def _without_empty(context: Context, node: ir.Node) -> bool:
    """Drop the inputs of size 0 along the axis."""
    axis = node.attributes["axis"].as_int()
    inputs = [value for value in node.inputs if value is None or value.shape is None or value.shape[axis] != 0]
    if len(inputs) == len(node.inputs) or not inputs:
        return False
    set_inputs(node, inputs)
    return True


def _sliced_part(context: Context, node: ir.Node) -> ir.Value | None:
    """The part of a Concat that a Slice takes out."""
    concat, total_rank = produced_by(node.inputs[0], "Concat"), rank(node.inputs[0])
    starts, ends = context.ints(node, "starts", 1), context.ints(node, "ends", 2)
    steps = context.ints(node, "steps", 4) if has_argument(node, "steps", 4) else (1,)
    axes = context.ints(node, "axes", 3) if has_argument(node, "axes", 3) else (0,)
    if concat is None or total_rank is None or axes is None or starts is None or ends is None or steps != (1,):
        return None
    axis = concat.attributes["axis"].as_int() % total_rank
    sizes = [None if part is None or part.shape is None else part.shape[axis] for part in concat.inputs]
    known = [size for size in sizes if isinstance(size, int)]
    if normalized(axes, total_rank) != (axis,) or len(known) < len(sizes):
        return None
    start, end, _ = slice(starts[0], ends[0]).indices(sum(known))
    parts = zip(concat.inputs, itertools.accumulate(known, initial=0), known, strict=False)
    return next((part for part, begin, size in parts if (begin, begin + size) == (start, end)), None)


def _goes_on(node: ir.Node) -> bool:
    """Whether all uses of a Concat are Concats along the same axis."""
    output = node.outputs[0]
    readers = {use.node for use in output.uses()}
    axis = _axis(node, rank(output))
    alike = all(is_op(reader, "Concat") and _axis(reader, rank(output)) == axis for reader in readers)
    return alike and not output.is_graph_output()


def _axis(node: ir.Node, total_rank: int | None) -> int | None:
    axis = node.attributes["axis"].as_int()
    return axis if axis >= 0 or total_rank is None else axis + total_rank


def _same_dim_at(left: ir.Value, right: ir.Value, axis: int) -> bool:
    if left.shape is None or right.shape is None or axis >= min(len(left.shape), len(right.shape)):
        return False
    return same_dim(left.shape[axis], right.shape[axis])


def _undone_unsqueeze(context: Context, node: ir.Node) -> ir.Value | None:
    inner = produced_by(node.inputs[0], "Unsqueeze")
    return None if inner is None else _undone(context, node, inner, rank(node.inputs[0]))


def _undone_squeeze(context: Context, node: ir.Node) -> ir.Value | None:
    inner = produced_by(node.inputs[0], "Squeeze")
    return None if inner is None else _undone(context, node, inner, rank(inner.inputs[0]))


def _undone(context: Context, node: ir.Node, inner: ir.Node, full_rank: int | None) -> ir.Value | None:
    """The input of `inner` if `node` takes away the axes it adds, or adds those it takes away."""
    axes, inner_axes = context.ints(node, "axes", 1), context.ints(inner, "axes", 1)
    if axes is None or inner_axes is None:
        return None
    axes, inner_axes = normalized(axes, full_rank), normalized(inner_axes, full_rank)
    if axes is None or inner_axes is None or sorted(axes) != sorted(inner_axes):
        return None
    return inner.inputs[0]


def _unsqueeze(context: Context, node: ir.Node) -> bool:
    middle = node.inputs[0]
    inner = produced_by(middle, "Unsqueeze")
    if inner is None or middle is None or not only_use(middle) or node.graph is None:
        return False
    axes, inner_axes = context.ints(node, "axes", 1), context.ints(inner, "axes", 1)
    middle_rank = rank(middle)
    if axes is None or inner_axes is None:
        return False
    inner_axes = normalized(inner_axes, middle_rank)
    axes = normalized(axes, None if middle_rank is None else middle_rank + len(axes))
    if axes is None or inner_axes is None:
        return False
    merged = _merged_axes(inner_axes, axes)
    if context.opset < 13:
        node.attributes["axes"] = ir.AttrInt64s("axes", merged)
        set_inputs(node, inner.inputs)
        return True
    name = context.names.claim(f"{node.outputs[0].name}_axes")
    set_inputs(node, [inner.inputs[0], add_initializer(node.graph, name, ir.Tensor(np.array(merged)))])
    return True


def _merged_axes(inner: Sequence[int], outer: Sequence[int]) -> list[int]:
    """The positions of the axes added by both in the final shape."""
    last = len(inner) + len(outer) + max(*inner, *outer, 0)
    before_outer = [axis for axis in range(last + 1) if axis not in outer]
    return sorted([*outer, *(before_outer[axis] for axis in inner)])


def _moved_unsqueeze(context: Context, node: ir.Node) -> bool:
    transposed = produced_by(node.inputs[0], "Transpose")
    inner = None if transposed is None else produced_by(transposed.inputs[0], "Unsqueeze")
    if transposed is None or inner is None or (source := inner.inputs[0]) is None:
        return False
    perm, axes, added = permutation(transposed), context.ints(node, "axes", 1), context.ints(inner, "axes", 1)
    if perm is None or axes is None or added is None:
        return False
    axes, added = normalized(axes, len(perm)), normalized(added, len(perm))
    if axes is None or added is None or sorted(perm[axis] for axis in axes) != sorted(added):
        return False
    before = [axis for axis in range(len(perm)) if axis not in added]
    order = [before.index(perm[axis]) for axis in range(len(perm)) if axis not in axes]
    become(context, node, "Transpose", [source], [ir.AttrInt64s("perm", order)])
    return True


def _reduction(context: Context, node: ir.Node) -> bool:
    inner = produced_by(node.inputs[0], *_REDUCTIONS)
    if inner is None or not only_use(inner.outputs[0]):
        return False
    keeps = node.op_type == "Unsqueeze"
    full_rank, axes, moved = rank(inner.inputs[0]), context.ints(inner, "axes", 1), context.ints(node, "axes", 1)
    if not axes or moved is None or full_rank is None or inner.attributes.get_int("keepdims", 1) == keeps:
        return False
    if sorted(axis % full_rank for axis in axes) != sorted(axis % full_rank for axis in moved):
        return False
    attributes = [attribute for name, attribute in inner.attributes.items() if name != "keepdims"]
    become(context, node, inner.op_type, inner.inputs, [*attributes, ir.AttrInt64("keepdims", int(keeps))])
    return True


def _once(context: Context, node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if produced_by(node.inputs[0], node.op_type) is not None else None


def _twice(context: Context, node: ir.Node) -> ir.Value | None:
    inner = produced_by(node.inputs[0], node.op_type)
    return None if inner is None else inner.inputs[0]


def _clip(context: Context, node: ir.Node) -> ir.Value | None:
    inner = produced_by(node.inputs[0], "Clip")
    if inner is None or inner.attributes != node.attributes:
        return None
    same_bounds = all(operand(inner, index) is operand(node, index) for index in (1, 2))
    return node.inputs[0] if same_bounds else None


_RULES: Mapping[str, Sequence[Rewrite]] = {
    "Cast": [_cast],
    "Transpose": [_transpose, _transposed_reshape],
    "Reshape": [replacing(_reshaped_back), _reshape],
    "Concat": [_concat, _without_empty],
    "Slice": [replacing(_sliced_part)],
    "Squeeze": [replacing(_undone_unsqueeze), _moved_unsqueeze, _reduction],
    "Unsqueeze": [replacing(_undone_squeeze), _unsqueeze, _reduction],
    **{op_type: [replacing(_once)] for op_type in ("Relu", "Abs", "Floor", "Ceil", "Round", "Sign")},
    **{op_type: [replacing(_twice)] for op_type in ("Neg", "Not")},
    "Clip": [replacing(_clip)],
}
