"""Removal of gathers that read a tensor at every position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Context, normalized, produced_by, rank, same_dim
from onnxport.optimize.rewrite import Rewrite, add_initializer, become, bypass, rewrite_nodes

_INPUT_AXES_SINCE = 13


class ReadWholeAxes(ir.passes.InPlacePass):
    """Replaces reading a tensor at all positions of its axes by the tensor.

    Rule: GatherND by one index for each axis, each of which is Range(0, n, 1) over the n positions of that axis, along
    dimensions of the result that follow one another as the axes do: an Unsqueeze puts in the other dimensions, which
    are of size 1. Without such dimensions it goes. Masks of attention are read like this,
    ``mask[batch[:, None, None, None], key[None, None, None, :]]``.

    Preserves: every value bit for bit, as far as the declared shapes are true and dimensions of one name are of one
    size; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), _RULES))


def _gather_nd(context: Context, node: ir.Node) -> bool:
    data, result = node.inputs[0], node.outputs[0]
    if data is None or data.shape is None or result.shape is None or node.graph is None:
        return False
    if node.attributes.get_int("batch_dims", 0):
        return False
    kept = _kept_axes(context, node.inputs[1], data.shape.dims, len(result.shape))
    if kept is None or kept != sorted(set(kept)):
        return False
    added = [axis for axis in range(len(result.shape)) if axis not in kept]
    if any(result.shape[axis] != 1 for axis in added):
        return False
    if not all(same_dim(result.shape[axis], dim) for axis, dim in zip(kept, data.shape.dims, strict=True)):
        return False
    if not added:
        return bypass(context, node, data)
    if context.opset < _INPUT_AXES_SINCE:
        become(context, node, "Unsqueeze", [data], [ir.AttrInt64s("axes", added)])
        return True
    axes = add_initializer(node.graph, context.names.claim(f"{result.name}_axes"), ir.Tensor(np.array(added)))
    become(context, node, "Unsqueeze", [data, axes])
    return True


def _kept_axes(
    context: Context, indices: ir.Value | None, dims: Sequence[int | ir.SymbolicDim], result_rank: int
) -> list[int] | None:
    """The dimension of the result along which each axis is read from end to end; None if one is not."""
    joined = produced_by(indices, "Concat")
    if joined is None or len(joined.inputs) != len(dims):
        return None
    if joined.attributes["axis"].as_int() not in (-1, result_rank):
        return None
    kept = []
    for part, dim in zip(joined.inputs, dims, strict=True):
        found = _range(context, part)
        if found is None or rank(part) != result_rank + 1:
            return None
        positions, axis = found
        if positions.shape is None or not same_dim(positions.shape[0], dim) or axis == result_rank:
            return None
        kept.append(axis)
    return kept


def _range(context: Context, value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """The Range from 0 in steps of 1 that a value repeats along all axes but one, and that axis."""
    if value is None or value.shape is None:
        return None
    producer = produced_by(value, "Range", "Unsqueeze", "Expand")
    if producer is None:
        return None
    if producer.op_type == "Range":
        start, step = context.array(producer.inputs[0]), context.array(producer.inputs[2])
        counts = start is not None and step is not None and start.item() == 0 and step.item() == 1
        return (value, 0) if counts else None
    inner = _range(context, producer.inputs[0])
    if inner is None:
        return None
    positions, axis = inner
    if producer.op_type == "Expand":
        return positions, axis + len(value.shape) - (rank(producer.inputs[0]) or 0)
    axes = context.ints(producer, "axes", 1)
    added = None if axes is None else normalized(axes, len(value.shape))
    if added is None:
        return None
    return positions, [kept for kept in range(len(value.shape)) if kept not in added][axis]


_RULES: Mapping[str, Sequence[Rewrite]] = {"GatherND": [_gather_nd]}
