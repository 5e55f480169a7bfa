"""ONNX operators in numpy, for constant folding.

A table of its own rather than onnx.reference: importing that takes 70 ms, and its operators copy where a view will do.
The table has operators that occur on weights, scalars and shapes; other operators are not folded.
Quantization is left out on purpose: folding it would turn int8 weights back into floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.optimize import movement
from onnxport.optimize.context import Array
from onnxport.optimize.movement import Inputs

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
    if base.dtype != exponent.dtype or (np.issubdtype(base.dtype, np.integer) and bool((exponent < 0).any())):
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
    if target in _SMALL and array.size and not _is_within(array, np.iinfo(target.numpy())):
        return None
    return array.astype(target.numpy())


def _is_within(array: Array, limits: np.iinfo[Any]) -> bool:
    return bool(limits.min <= array.min() and array.max() <= limits.max)


_SMALL = {ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16}


_CASTABLE = _SMALL | {
    ir.DataType.BOOL,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
}


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
    array, axes = inputs[0], movement.given(node, "axes", inputs, 1)
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


def _sum_absolute(array: Array, **how: Any) -> Any:
    return np.sum(np.abs(array), **how)


def _sum_square(array: Array, **how: Any) -> Any:
    return np.sum(np.square(array), **how)


def _cum_sum(node: ir.Node, inputs: Inputs) -> Array | None:
    array, axis = inputs
    if array is None or axis is None or array.dtype in _LOW_PRECISION:
        return None
    if node.attributes.get_int("exclusive", 0) or node.attributes.get_int("reverse", 0):
        return None
    return np.cumsum(array, int(axis.reshape(())), dtype=array.dtype)


def _matmul(node: ir.Node, inputs: Inputs) -> Array | None:
    left, right = inputs
    if left is None or right is None:
        return None
    if left.dtype in _LOW_PRECISION:
        return np.asarray(left.astype(np.float32) @ right.astype(np.float32)).astype(left.dtype)
    return np.asarray(left @ right)


def _gemm(node: ir.Node, inputs: Inputs) -> Array | None:
    left, right, *bias = inputs
    product = _matmul(node, (_maybe_transposed(node, "transA", left), _maybe_transposed(node, "transB", right)))
    if product is None:
        return None
    result = product * np.asarray(node.attributes.get_float("alpha", 1.0), product.dtype)
    if bias and bias[0] is not None:
        result = result + bias[0] * np.asarray(node.attributes.get_float("beta", 1.0), product.dtype)
    return np.asarray(result)


def _maybe_transposed(node: ir.Node, name: str, array: Array | None) -> Array | None:
    is_transposed = node.attributes.get_int(name, 0)
    return array if array is None or not is_transposed else array.T


def _reciprocal(array: Array) -> Array:
    return np.asarray(np.ones((), array.dtype) / array)


def _sigmoid(array: Array) -> Array:
    one = np.ones((), array.dtype)
    return np.asarray(one / (one + np.exp(-array)))


def _softplus(array: Array) -> Array:
    return np.asarray(np.logaddexp(array, np.zeros((), array.dtype))).astype(array.dtype)


def _relu(array: Array) -> Array:
    return np.asarray(np.maximum(array, np.zeros((), array.dtype)))


_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs,
    "Acos": np.arccos,
    "Asin": np.arcsin,
    "Atan": np.arctan,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
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
    "Sinh": np.sinh,
    "Softplus": _softplus,
    "Sqrt": np.sqrt,
    "Tan": np.tan,
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
    "ReduceL1": _sum_absolute,
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
    "Concat": movement.concat,
    "ConstantOfShape": movement.constant_of_shape,
    "CumSum": _cum_sum,
    "Expand": movement.expand,
    "Flatten": movement.flatten,
    "Gather": movement.gather,
    "GatherElements": movement.gather_elements,
    "GatherND": movement.gather_nd,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Mod": _mod,
    "Range": partial(_elementwise, _range),
    "Reshape": movement.reshape,
    "ScatterND": movement.scatter_nd,
    "Shape": movement.shape,
    "Size": movement.size,
    "Slice": movement.slice_,
    "Squeeze": movement.squeeze,
    "Tile": movement.tile,
    "Transpose": movement.transpose,
    "Trilu": movement.trilu,
    "Unsqueeze": movement.unsqueeze,
    "Where": partial(_elementwise, np.where),
}
