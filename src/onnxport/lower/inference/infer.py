"""The dtype and shape of an ONNX node's first output, which converters need at once.

The shape is None if it does not follow from the inputs' shapes and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxport.graph.sizes import Shape, Size, SizeExpr, apply, product
from onnxport.graph.sizes import size as common_size
from onnxport.lower.value import Value

Inputs = Sequence["Value | None"]
Attributes = Mapping[str, Any]
Inferred = tuple[torch.dtype, "Shape | None"]

# The end of a backward slice that includes the first element.
INT64_LOW = -(2**62)

BOOLEAN = frozenset(
    {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"}
)
INDICES = frozenset({"Shape", "Size", "NonZero", "ArgMax", "ArgMin", "NonMaxSuppression"})
# Elementwise operators.
ELEMENTWISE = frozenset(
    [
        "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd",
        "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div",
        "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid",
        "HardSwish", "Hardmax", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log",
        "LogSoftmax", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow",
        "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax",
        "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
    ]
)  # fmt: skip
SAME_AS_FIRST = frozenset(
    [
        "BatchNormalization",
        "CumSum",
        "CumProd",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LpNormalization",
        "LRN",
        "MeanVarianceNormalization",
        "ReverseSequence",
        "RMSNormalization",
        "ScatterElements",
        "ScatterND",
        "Scatter",
        "Trilu",
        "Bernoulli",
    ]
)
SECOND_GIVES_DTYPE = frozenset({"Where"})


def infer(op: str, inputs: Inputs, attributes: Attributes) -> Inferred:
    """The first output of a node."""
    return dtype_of(op, inputs, attributes), shape_of(op, inputs, attributes)


def dtype_of(op: str, inputs: Inputs, attributes: Attributes) -> torch.dtype:
    if op in BOOLEAN:
        return torch.bool
    if op in INDICES:
        return torch.int64
    if isinstance(attributes.get("to"), torch.dtype):
        return attributes["to"]  # type: ignore[no-any-return]
    if isinstance(attributes.get("dtype"), torch.dtype):
        return attributes["dtype"]  # type: ignore[no-any-return]
    if op == "ConstantOfShape":
        value = attributes.get("value")
        return value.dtype if isinstance(value, torch.Tensor) else torch.float32
    if op == "OneHot":
        return _given(inputs, 2).dtype
    if op == "Optional" and not inputs:
        return torch.float32  # until the converter sets its type
    if op == "Loop":
        return next((value.dtype for value in inputs[2:] if value is not None), torch.float32)
    return _given(inputs, 1 if op in SECOND_GIVES_DTYPE else 0).dtype


def shape_of(op: str, inputs: Inputs, attributes: Attributes) -> Shape | None:
    if op in ELEMENTWISE:
        return broadcast([value.shape for value in inputs if value is not None])
    if op in SAME_AS_FIRST:
        return _given(inputs, 0).shape
    rule = RULES.get(op)
    shapes_needed = [value.shape for value in inputs if value is not None]
    if rule is None or not shapes_needed or shapes_needed[0] is None:
        return None
    return rule(inputs, attributes)


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes) or not known:
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(_broadcast_size(column) for column in zip(*padded, strict=True))


def _broadcast_size(column: Sequence[Size]) -> Size:
    result: Size = 1
    for dimension in column:
        if result == 1 or (isinstance(result, SizeExpr) and isinstance(dimension, int) and dimension != 1):
            result = dimension
        elif isinstance(result, SizeExpr) and isinstance(dimension, SizeExpr):
            result = _wider(result, dimension)
    return result


def _wider(left: SizeExpr, right: SizeExpr) -> Size:
    """The size of a broadcast axis: either size may be 1 where the other is not."""
    both = tuple(map(max, left.at, right.at))
    wider = next((size for size in (left, right) if size.at == both), apply("max", left, right))
    assert isinstance(wider, (int, SizeExpr))
    return wider


def _given(inputs: Inputs, index: int) -> Value:
    value = inputs[index]
    assert value is not None
    return value


def _dims(value: Value) -> Shape:
    assert value.shape is not None
    return value.shape


def _constant_list(inputs: Inputs, index: int) -> list[int] | None:
    """The content of an input with constant integers."""
    value = inputs[index] if index < len(inputs) else None
    if value is None or value.data is None:
        return None
    return [int(number) for number in value.data.flatten().tolist()]


def _axes(inputs: Inputs, attributes: Attributes, index: int) -> list[int] | None:
    """Axes given as an attribute (older opsets) or as a constant input (newer ones)."""
    if "axes" in attributes:
        return list(attributes["axes"])
    return _constant_list(inputs, index)


def _reduce(inputs: Inputs, attributes: Attributes) -> Shape | None:
    shape = _dims(_given(inputs, 0))
    listed = _axes(inputs, attributes, 1)
    if listed is None:
        if len(inputs) > 1 and inputs[1] is not None:
            return None
        listed = [] if attributes.get("noop_with_empty_axes") else list(range(len(shape)))
    axes = {axis % len(shape) for axis in listed}
    if attributes.get("keepdims", 1):
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _arg_reduce(inputs: Inputs, attributes: Attributes) -> Shape:
    shape = _dims(_given(inputs, 0))
    axis = attributes.get("axis", 0) % max(len(shape), 1)
    kept = (1,) if attributes.get("keepdims", 1) else ()
    return shape[:axis] + kept + shape[axis + 1 :]


def _transpose(inputs: Inputs, attributes: Attributes) -> Shape:
    shape = _dims(_given(inputs, 0))
    return tuple(shape[axis] for axis in attributes.get("perm", range(len(shape))[::-1]))


def _unsqueeze(inputs: Inputs, attributes: Attributes) -> Shape | None:
    shape, axes = list(_dims(_given(inputs, 0))), _axes(inputs, attributes, 1)
    if axes is None:
        return None
    rank = len(shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return tuple(shape)


def _squeeze(inputs: Inputs, attributes: Attributes) -> Shape | None:
    shape, axes = _dims(_given(inputs, 0)), _axes(inputs, attributes, 1)
    if axes is None:
        return None
    dropped = {axis % len(shape) for axis in axes}
    return tuple(d for i, d in enumerate(shape) if i not in dropped)


def _concat(inputs: Inputs, attributes: Attributes) -> Shape | None:
    shapes = [value.shape for value in inputs if value is not None]
    first = shapes[0]
    assert first is not None
    axis = attributes["axis"] % len(first)
    total: Size = 0
    for shape in shapes:
        if shape is None:
            return None
        total = total + shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def _gather(inputs: Inputs, attributes: Attributes) -> Shape | None:
    data, indices = _dims(_given(inputs, 0)), _given(inputs, 1).shape
    if indices is None:
        return None
    axis = attributes.get("axis", 0) % len(data)
    return data[:axis] + indices + data[axis + 1 :]


def _like_indices(inputs: Inputs, attributes: Attributes) -> Shape | None:
    return _given(inputs, 1).shape


def _matmul(inputs: Inputs, attributes: Attributes) -> Shape | None:
    left, right = _dims(_given(inputs, 0)), _given(inputs, 1).shape
    if right is None or not left or not right:
        return None
    batch = broadcast([left[:-2], right[:-2]])
    return None if batch is None else (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _gemm(inputs: Inputs, attributes: Attributes) -> Shape | None:
    left, right = _dims(_given(inputs, 0)), _given(inputs, 1).shape
    if right is None:
        return None
    return (left[1 if attributes.get("transA") else 0], right[0 if attributes.get("transB") else 1])


def _reshape(inputs: Inputs, attributes: Attributes) -> Shape | None:
    shape, target = _dims(_given(inputs, 0)), _constant_list(inputs, 1)
    if target is None:
        return None
    result: list[Size] = [shape[i] if d == 0 and i < len(shape) else d for i, d in enumerate(target)]
    if -1 in result:
        inferred = result.index(-1)
        rest = product(d for d in result[:inferred] + result[inferred + 1 :])
        result[inferred] = product(shape) // rest if rest != 0 else 0
    return tuple(result)


def _expand(inputs: Inputs, attributes: Attributes) -> Shape | None:
    target = _constant_list(inputs, 1)
    return None if target is None else broadcast([_dims(_given(inputs, 0)), tuple(target)])


def _shape(inputs: Inputs, attributes: Attributes) -> Shape:
    rank = len(_dims(_given(inputs, 0)))
    start, end = attributes.get("start", 0), attributes.get("end", rank)
    return (len(range(*slice(start, end).indices(rank))),)


def _constant_of_shape(inputs: Inputs, attributes: Attributes) -> Shape | None:
    target = _constant_list(inputs, 0)
    return None if target is None else tuple(target)


def _slice(inputs: Inputs, attributes: Attributes) -> Shape | None:
    """Bounds given as attributes (before opset 10) or as constant inputs."""
    shape = list(_dims(_given(inputs, 0)))
    starts, ends, axes, steps = (
        attributes.get(name, _constant_list(inputs, index + 1))
        for index, name in enumerate(("starts", "ends", "axes", "steps"))
    )
    if starts is None or ends is None or (steps is None and len(inputs) > 4):
        return None
    for start, end, axis, step in zip(
        starts, ends, axes or range(len(starts)), steps or [1] * len(starts), strict=True
    ):
        shape[axis] = _sliced(shape[axis], slice(start, end if step > 0 or end > INT64_LOW else None, step))
    return tuple(shape)


def _sliced(size: Size, cut: slice) -> Size:
    if isinstance(size, SizeExpr):
        found = common_size(len(range(*cut.indices(at))) for at in size.at)
        # The same as arithmetic, which has a name.
        if cut.step is not None and cut.step > 0 and cut.start >= 0 and cut.stop is not None:
            rest = size - cut.start + (cut.stop if cut.stop < 0 else 0)
            named = rest if cut.step == 1 else (rest + (cut.step - 1)) // cut.step
            return named if named == found else found
        return found
    return len(range(*cut.indices(size)))


def _tile(inputs: Inputs, attributes: Attributes) -> Shape | None:
    repeats = _constant_list(inputs, 1)
    if repeats is None:
        return None
    return tuple(size * count for size, count in zip(_dims(_given(inputs, 0)), repeats, strict=True))


def _depth_to_space(inputs: Inputs, attributes: Attributes) -> Shape:
    block = attributes["blocksize"]
    batch, channels, height, width = _dims(_given(inputs, 0))
    return (batch, channels // (block * block), height * block, width * block)


def _space_to_depth(inputs: Inputs, attributes: Attributes) -> Shape:
    block = attributes["blocksize"]
    batch, channels, height, width = _dims(_given(inputs, 0))
    return (batch, channels * block * block, height // block, width // block)


RULES: dict[str, Callable[[Inputs, Attributes], Shape | None]] = {
    **dict.fromkeys(
        [
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceSumSquare",
        ],
        _reduce,
    ),
    "ArgMax": _arg_reduce,
    "ArgMin": _arg_reduce,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Gather": _gather,
    "GatherElements": _like_indices,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Reshape": _reshape,
    "Expand": _expand,
    "Shape": _shape,
    "Size": lambda inputs, attributes: (),
    "ConstantOfShape": _constant_of_shape,
    "Slice": _slice,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
