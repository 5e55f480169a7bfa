"""ONNX operators in numpy, for constant folding.

A table of its own rather than onnx.reference: importing that takes 70 ms, and its operators copy where a view will do.
The table has operators that occur on weights, scalars and shapes; other operators are not folded.
Quantization is left out on purpose: folding it would turn int8 weights back into floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Array

Inputs = Sequence[Array | None]
Evaluator = Callable[[ir.Node, Inputs], Array | None]

# Sums of these are computed in float32, as in runtimes.
_LOW_PRECISION = {ir.DataType.FLOAT16.numpy(), ir.DataType.BFLOAT16.numpy()}


def evaluate(node: ir.Node, inputs: Inputs) -> Array | None:
    """The first output of a node of the ONNX domain; None if this operator, or this form of it, is not in the table."""
    evaluator = EVALUATORS.get(node.op_type)
    if evaluator is None:
        return None
    with np.errstate(all="ignore"):
        result = evaluator(node, inputs)
    return None if result is None else np.asarray(result)


def _given(node: ir.Node, name: str, inputs: Inputs, index: int) -> tuple[int, ...] | None:
    """Integers that are an attribute in some opsets and an input in others."""
    if name in node.attributes:
        return tuple(node.attributes[name].as_ints())
    array = inputs[index] if index < len(inputs) else None
    return None if array is None else tuple(int(item) for item in array.reshape(-1))


def _elementwise(function: Callable[..., Array | None], node: ir.Node, inputs: Inputs) -> Array | None:
    return function(*inputs)


def _folded(function: Callable[[Any, Any], Any], node: ir.Node, inputs: Inputs) -> Array:
    result, *others = inputs
    for other in others:
        result = function(result, other)
    return np.asarray(result)


def _divide(left: Array, right: Array) -> Array | None:
    if not np.issubdtype(left.dtype, np.integer):
        return np.asarray(left / right)
    if not right.all():
        return None
    # ONNX divides integers towards zero, numpy towards minus infinity.
    quotient = left // right
    inexact = quotient * right != left
    return np.asarray(quotient + (inexact & ((left < 0) != (right < 0)))).astype(left.dtype)


def _power(base: Array, exponent: Array) -> Array | None:
    if np.issubdtype(base.dtype, np.integer) or base.dtype != exponent.dtype:
        return None
    return np.asarray(np.power(base, exponent))


def _mod(node: ir.Node, inputs: Inputs) -> Array | None:
    left, right = inputs
    if left is None or right is None or not right.all():
        return None
    return np.asarray((np.fmod if node.attributes.get_int("fmod", 0) else np.mod)(left, right))


def _cast(node: ir.Node, inputs: Inputs) -> Array | None:
    array, target = inputs[0], ir.DataType(node.attributes["to"].as_int())
    if array is None or target not in _CASTABLE:
        return None
    is_float = not np.issubdtype(array.dtype, np.integer) and array.dtype != np.bool_
    # The result for NaN, infinity and numbers out of range differs between numpy and the runtimes.
    if is_float and target.is_integer() and not np.all(np.abs(array.astype(np.float64)) < 2**31):
        return None
    return array.astype(target.numpy())


_CASTABLE = {
    ir.DataType.BOOL,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
}


def _reshape(node: ir.Node, inputs: Inputs) -> Array | None:
    array, target = inputs[0], _given(node, "shape", inputs, 1)
    if array is None or target is None:
        return None
    if not node.attributes.get_int("allowzero", 0):
        target = tuple(array.shape[axis] if size == 0 else size for axis, size in enumerate(target))
    return array.reshape(target)


def _flatten(node: ir.Node, inputs: Inputs) -> Array | None:
    array = inputs[0]
    if array is None:
        return None
    axis = node.attributes.get_int("axis", 1)
    axis += array.ndim if axis < 0 else 0
    return array.reshape(int(np.prod(array.shape[:axis])), -1) if array.size else None


def _squeeze(node: ir.Node, inputs: Inputs) -> Array | None:
    return None if inputs[0] is None else np.squeeze(inputs[0], _given(node, "axes", inputs, 1))


def _unsqueeze(node: ir.Node, inputs: Inputs) -> Array | None:
    axes = _given(node, "axes", inputs, 1)
    return None if inputs[0] is None or axes is None else np.expand_dims(inputs[0], axes)


def _transpose(node: ir.Node, inputs: Inputs) -> Array | None:
    return None if inputs[0] is None else np.transpose(inputs[0], node.attributes.get_ints("perm"))


def _concat(node: ir.Node, inputs: Inputs) -> Array:
    return np.concatenate([array for array in inputs if array is not None], node.attributes["axis"].as_int())


def _slice(node: ir.Node, inputs: Inputs) -> Array | None:
    array = inputs[0]
    starts, ends = _given(node, "starts", inputs, 1), _given(node, "ends", inputs, 2)
    if array is None or starts is None or ends is None:
        return None
    axes = _given(node, "axes", inputs, 3) or range(len(starts))
    steps = _given(node, "steps", inputs, 4) or (1,) * len(starts)
    if any(step < 1 for step in steps):
        return None
    index = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return np.asarray(array[tuple(index)])


def _gather(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices = inputs[0], inputs[1]
    return None if array is None or indices is None else np.take(array, indices, node.attributes.get_int("axis", 0))


def _gather_elements(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices = inputs[0], inputs[1]
    if array is None or indices is None:
        return None
    axis = node.attributes.get_int("axis", 0) % array.ndim
    index: list[Any] = list(np.indices(indices.shape, sparse=True))
    index[axis] = indices
    return np.asarray(array[tuple(index)])


def _gather_nd(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices = inputs[0], inputs[1]
    if array is None or indices is None or node.attributes.get_int("batch_dims", 0) != 0:
        return None
    return np.asarray(array[tuple(np.moveaxis(indices, -1, 0))])


def _scatter_nd(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices, updates = inputs
    if array is None or indices is None or updates is None or node.attributes.get_string("reduction", "none") != "none":
        return None
    # ONNX does not define which of two updates of one element wins.
    positions = np.reshape(indices, (-1, indices.shape[-1])) % np.array(array.shape[: indices.shape[-1]])
    if len(np.unique(positions, axis=0)) < len(positions):
        return None
    result: Array = array.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def _cum_sum(node: ir.Node, inputs: Inputs) -> Array | None:
    array, axis = inputs
    if array is None or axis is None or array.dtype in _LOW_PRECISION:
        return None
    if node.attributes.get_int("exclusive", 0) or node.attributes.get_int("reverse", 0):
        return None
    return np.cumsum(array, int(axis.reshape(())), dtype=array.dtype)


def _expand(node: ir.Node, inputs: Inputs) -> Array | None:
    array, target = inputs[0], _given(node, "shape", inputs, 1)
    if array is None or target is None:
        return None
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, target))


def _tile(node: ir.Node, inputs: Inputs) -> Array | None:
    repeats = _given(node, "repeats", inputs, 1)
    return None if inputs[0] is None or repeats is None else np.tile(inputs[0], repeats)


def _shape(node: ir.Node, inputs: Inputs) -> Array | None:
    if inputs[0] is None:
        return None
    dims = np.array(inputs[0].shape, dtype=np.int64)
    return dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", dims.size)]


def _size(node: ir.Node, inputs: Inputs) -> Array | None:
    return None if inputs[0] is None else np.array(inputs[0].size, dtype=np.int64)


def _constant_of_shape(node: ir.Node, inputs: Inputs) -> Array | None:
    shape = _given(node, "shape", inputs, 0)
    value = node.attributes.get_tensor("value")
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    return None if shape is None else np.broadcast_to(fill.reshape(()), shape)


def _range(start: Array, limit: Array, delta: Array) -> Array:
    # Counted as ONNX does; np.arange in float32 may be off by one.
    count = max(int(np.ceil((limit - start) / delta)), 0)
    return np.asarray(start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


def _clip(node: ir.Node, inputs: Inputs) -> Array | None:
    result = inputs[0]
    if result is None:
        return None
    bounds = [(1, "min", np.maximum), (2, "max", np.minimum)]
    for index, name, limit in bounds:
        bound = inputs[index] if index < len(inputs) else None
        if name in node.attributes:
            bound = np.array(node.attributes[name].as_float(), result.dtype)
        result = result if bound is None else np.asarray(limit(result, bound))
    return result


def _reduce(function: Callable[..., Any], node: ir.Node, inputs: Inputs) -> Array | None:
    array, axes = inputs[0], _given(node, "axes", inputs, 1)
    keepdims, noop_if_empty = node.attributes.get_int("keepdims", 1), node.attributes.get_int("noop_with_empty_axes", 0)
    if array is None or not array.size or axes == () or noop_if_empty:
        return None
    if np.issubdtype(array.dtype, np.integer) and function in (np.mean, _norm):
        return None
    wide = array.astype(np.float32) if array.dtype in _LOW_PRECISION else array
    result = function(wide, axis=axes, keepdims=keepdims == 1)
    return np.asarray(result).astype(array.dtype)


def _norm(array: Array, **how: Any) -> Any:
    return np.sqrt(np.sum(np.square(array), **how))


def _sum_square(array: Array, **how: Any) -> Any:
    return np.sum(np.square(array), **how)


def _matmul(node: ir.Node, inputs: Inputs) -> Array | None:
    left, right = inputs
    if left is None or right is None:
        return None
    if left.dtype in _LOW_PRECISION:
        return np.asarray(left.astype(np.float32) @ right.astype(np.float32)).astype(left.dtype)
    return np.asarray(left @ right)


def _trilu(node: ir.Node, inputs: Inputs) -> Array | None:
    if inputs[0] is None:
        return None
    diagonal = int(inputs[1].reshape(())) if len(inputs) > 1 and inputs[1] is not None else 0
    return (np.triu if node.attributes.get_int("upper", 1) else np.tril)(inputs[0], diagonal)


def _reciprocal(array: Array) -> Array:
    return np.asarray(np.ones((), array.dtype) / array)


def _sigmoid(array: Array) -> Array:
    one = np.ones((), array.dtype)
    return np.asarray(one / (one + np.exp(-array)))


def _softplus(array: Array) -> Array:
    return np.asarray(np.logaddexp(array, np.zeros((), array.dtype))).astype(array.dtype)


def _relu(array: Array) -> Array:
    return np.asarray(np.maximum(array, np.zeros((), array.dtype)))


VIEWS = {"Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose result is a view of their input: they cost no memory, whatever the size."""

_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Exp": np.exp,
    "Floor": np.floor,
    "Identity": np.asarray,
    "IsNaN": np.isnan,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": _reciprocal,
    "Relu": _relu,
    "Round": np.rint,
    "Sigmoid": _sigmoid,
    "Sign": np.sign,
    "Sin": np.sin,
    "Softplus": _softplus,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Div": _divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": _power,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_VARIADIC: dict[str, Callable[[Any, Any], Any]] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}
_REDUCE: dict[str, Callable[..., Any]] = {
    "ReduceL2": _norm,
    "ReduceMax": np.max,
    "ReduceMean": np.mean,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": _sum_square,
}

EVALUATORS: Mapping[str, Evaluator] = {
    **{op_type: partial(_elementwise, function) for op_type, function in (_UNARY | _BINARY).items()},
    **{op_type: partial(_folded, function) for op_type, function in _VARIADIC.items()},
    **{op_type: partial(_reduce, function) for op_type, function in _REDUCE.items()},
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "CumSum": _cum_sum,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "MatMul": _matmul,
    "Mod": _mod,
    "Range": partial(_elementwise, _range),
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    "Where": partial(_elementwise, np.where),
}
