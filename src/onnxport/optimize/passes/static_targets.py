"""Constant targets for Reshape and Expand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Context, same_dim
from onnxport.optimize.rewrite import Rewrite, add_initializer, rewrite_nodes, set_inputs

_Dims = tuple[int | ir.SymbolicDim, ...]
_Target = Callable[[_Dims, _Dims], list[int] | None]


class UseStaticTargets(ir.passes.InPlacePass):
    """Gives Reshape and Expand a constant target where the known shapes allow it, and drops its computation.

    Rules:
        1. Reshape to a shape with one dimension that is not static: -1 stands for it. With more of them, 0 stands for
           those that the input has at the same position, and -1 for one other.
        2. Expand: 1 stands for the dimensions that the input has already; all others have to be static.

    Preserves: all values, as far as the declared shapes are true and dimensions of one name are of one size.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), _RULES))


def _reshape(source: _Dims, result: _Dims) -> list[int] | None:
    if 0 in result:
        return None
    if sum(not isinstance(dim, int) for dim in result) <= 1:
        return [dim if isinstance(dim, int) else -1 for dim in result]
    target = []
    for axis, dim in enumerate(result):
        copied = axis < len(source) and same_dim(source[axis], dim)
        target.append(dim if isinstance(dim, int) else 0 if copied else -1)
    return target if target.count(-1) <= 1 else None


def _expand(source: _Dims, result: _Dims) -> list[int] | None:
    target = []
    added = len(result) - len(source)
    for axis, dim in enumerate(result):
        if axis >= added and same_dim(source[axis - added], dim):
            target.append(1)
        elif isinstance(dim, int):
            target.append(dim)
        else:
            return None
    return target


def _using(target_of: _Target) -> Rewrite:
    def rewrite(context: Context, node: ir.Node) -> bool:
        value, shape = node.inputs
        result = node.outputs[0]
        if value is None or value.shape is None or result.shape is None or node.graph is None:
            return False
        if context.tensor(shape) is not None:
            return False
        target = target_of(value.shape.dims, result.shape.dims)
        if target is None:
            return False
        name = context.names.claim(f"{result.name}_shape")
        tensor = ir.Tensor(np.array(target, dtype=np.int64))
        set_inputs(node, [value, add_initializer(node.graph, name, tensor)])
        node.attributes.pop("allowzero", None)
        return True

    return rewrite


_RULES: Mapping[str, Sequence[Rewrite]] = {"Reshape": [_using(_reshape)], "Expand": [_using(_expand)]}
