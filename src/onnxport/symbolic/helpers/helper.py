"""What public symbolic functions call: the types of values, and operators in the form of every opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from onnxport.errors import UnsupportedOperatorError, UnsupportedOpsetError
from onnxport.lower import emit
from onnxport.lower.dtypes import result_type
from onnxport.symbolic.calling import CURRENT_OPSET
from onnxport.symbolic.helpers.builtin import call_builtin
from onnxport.symbolic.helpers.constants import _get_const, _is_none, _is_packed_list, _maybe_get_const, graph_and_rest
from onnxport.symbolic.objects.graph import GraphContext
from onnxport.symbolic.objects.types import JitScalarType
from onnxport.symbolic.objects.values import Value

INTERPOLATIONS = {"nearest": "nearest", "linear": "linear", "bilinear": "bilinear", "trilinear": "trilinear",
                  "cubic": "bicubic", "bicubic": "bicubic"}  # fmt: skip

# Types


def _try_get_scalar_type(*args: Any) -> str | None:
    """The name of the element type of the first argument that has one: ``Float``."""
    for value in args:
        if isinstance(value, Value) and value.type().scalarType() is not None:
            return value.type().scalarType()
    return None


def _is_fp(value: Any) -> bool:
    dtype = value.type().dtype() if isinstance(value, Value) else getattr(value, "dtype", None)
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point


def _is_bool(value: Any) -> bool:
    return isinstance(value, Value) and value.type().dtype() == torch.bool


def _is_in_type_group(value: Any, group: Sequence[Any]) -> bool:
    return isinstance(value, Value) and value.dtype is not None and JitScalarType.from_value(value) in group


def _type_promote_from_values(*args: Any) -> JitScalarType:
    """The element type that torch computes in."""
    tensors = [value.lowered for value in args if isinstance(value, Value) and value.lowered is not None]
    return JitScalarType.from_dtype(result_type(*tensors)) if tensors else JitScalarType.UNDEFINED


def _if_scalar_type_as(*args: Any) -> Any:
    """A constant in the element type of a tensor; values stay as they are."""
    _, (value, tensor) = graph_and_rest(args)
    if isinstance(value, Value):
        return value
    dtype = tensor.type().dtype() if isinstance(tensor, Value) else tensor.dtype
    if dtype is None:
        return value
    return value.to(dtype) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)


def _get_tensor_rank(x: Any) -> int | None:
    return x.type().dim() if isinstance(x, Value) else None


def _get_tensor_sizes(x: Any, allow_nonstatic: bool = True) -> list[int | None] | list[int] | None:
    """The sizes, None for each that is dynamic; with ``allow_nonstatic=False`` None as a whole if there is one."""
    if not isinstance(x, Value):
        return None
    return x.type().varyingSizes() if allow_nonstatic else x.type().sizes()


def _get_tensor_dim_size(x: Any, dim: int) -> int | None:
    sizes = _get_tensor_sizes(x)
    return None if sizes is None or not -len(sizes) <= dim < len(sizes) else sizes[dim]


def _get_dim_for_cross(x: Any, dim: int | None) -> int | None:
    """The given axis, or the first of size 3."""
    if dim is not None and dim != -1:
        return dim
    sizes = _get_tensor_sizes(x) or []
    return next((axis for axis, size in enumerate(sizes) if size == 3), None)


# Errors


def _unimplemented(op: str, msg: str, value: Any = None) -> NoReturn:
    """Say that a symbolic function does not know a case."""
    raise UnsupportedOperatorError(f"{_where(value)}{op} has no translation: {msg}")


def _onnx_unsupported(op_name: str, value: Any = None) -> NoReturn:
    raise UnsupportedOperatorError(f"{_where(value)}{op_name} cannot be expressed in ONNX")


def _onnx_opset_unsupported(op_name: str, current_opset: int, supported_opset: int, value: Any = None) -> NoReturn:
    raise UnsupportedOpsetError(
        f"{_where(value)}{op_name} needs opset_version={supported_opset} or newer; {current_opset} was asked for"
    )


def _onnx_opset_unsupported_detailed(
    op_name: str, current_opset: int, supported_opset: int, reason: str, value: Any = None
) -> NoReturn:
    raise UnsupportedOpsetError(
        f"{_where(value)}{op_name} needs opset_version={supported_opset} or newer; {current_opset} was asked for: "
        f"{reason}"
    )


def _where(value: Any) -> str:
    return f"{value.graph.builder.where()}: " if isinstance(value, Value) else ""


def export_opset() -> int | None:
    """The opset of the export that is calling a symbolic function."""
    return CURRENT_OPSET.get()


# Operators whose form differs between opsets


def _unsqueeze_helper(g: GraphContext, input: Any, axes_i: Sequence[int]) -> Value:
    return g.wrap(emit.unsqueeze(g.builder, g.tensor(input), [int(axis) for axis in _constants(axes_i)]))


def _squeeze_helper(g: GraphContext, input: Any, axes_i: Any) -> Value:
    axes = _maybe_get_const(axes_i, "is")
    if isinstance(axes, Value):
        squeezed: Value = g.op("Squeeze", input, axes)
        return squeezed
    return g.wrap(emit.squeeze(g.builder, g.tensor(input), [int(axis) for axis in _constants(axes)]))


def _slice_helper(
    g: GraphContext,
    input: Any,
    axes: Any,
    starts: Any,
    ends: Any,
    steps: Any = None,
    dynamic_slice: bool = False,
) -> Value:
    """A slice; the bounds are numbers, lists of them, or values."""
    bounds = [None if b is None or _is_none(b) else _maybe_get_const(b, "is") for b in (axes, starts, ends, steps)]
    if any(isinstance(bound, Value) for bound in bounds):
        vectors = [None if bound is None else _vector(g, bound) for bound in bounds]
        result: Value = g.op(
            "Slice", input, vectors[1], vectors[2], vectors[0], *([] if vectors[3] is None else vectors[3:])
        )
        return result
    which, first, last, by = (None if bound is None else _constants(bound) for bound in bounds)
    x = g.tensor(input)
    assert first is not None and last is not None
    which = list(range(len(first))) if which is None else which
    rank = x.rank if x.shape is not None else 0
    which = [axis % rank if rank else axis for axis in which]
    return g.wrap(emit.slice_(g.builder, x, first, last, which, by))


def _vector(g: GraphContext, bound: Any) -> Any:
    """A bound as a 1-D tensor."""
    value = g.value(bound)
    if value.elements is None and value.type().dim() == 0:
        return _unsqueeze_helper(g, value, [0])
    return value


def _reducesum_helper(
    g: GraphContext, input: Any, axes_i: Any = None, keepdims_i: int = 1, noop_with_empty_axes_i: int = 0
) -> Value:
    axes = None if axes_i is None else [int(axis) for axis in _constants(axes_i)]
    if not axes and not noop_with_empty_axes_i:
        axes = None
    return g.wrap(emit.reduce(g.builder, "ReduceSum", g.tensor(input), axes, bool(keepdims_i)))


def _reshape_helper(g: GraphContext, input: Any, shape: Any, allowzero: int = 0) -> Value:
    shape = _maybe_get_const(shape, "is")
    target = _vector(g, shape) if isinstance(shape, Value) else g.constant(list(shape), torch.int64)
    result: Value = g.op("Reshape", input, target, **({"allowzero_i": allowzero} if allowzero else {}))
    return result


def _size_helper(g: GraphContext, self: Any, dim: Any) -> Value:
    """One size of a tensor, as a tensor without dimensions."""
    size: Value = g.op("Gather", g.op("Shape", self), dim, axis_i=0)
    return size


def _topk_helper(
    g: GraphContext, input: Any, k: Any, dim: int, largest: bool = True, sorted: bool = False, out: Any = None
) -> Any:
    if not _is_none(out):
        _unimplemented("TopK", "an out argument", input)
    return call_builtin(g, "topk", (input, k, dim, bool(largest), bool(sorted)), {})


def _sort_helper(g: GraphContext, input: Any, dim: int, decending: bool = True, out: Any = None) -> Any:
    if not _is_none(out):
        _unimplemented("Sort", "an out argument", input)
    return call_builtin(g, "sort", (input, dim, bool(decending)), {})


def _arange_cast_helper(g: GraphContext, end: Any, start: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """The bounds of a range in one element type: the number of that type first, as TorchScript has it."""
    given = [None if bound is None else g.tensor(bound) for bound in (end, start, step)]
    common = result_type(*(bound for bound in given if bound is not None))
    kind = JitScalarType(dtype) if isinstance(dtype, int) else JitScalarType.from_dtype(common)
    return (kind, *(None if bound is None else g.cast(g.wrap(bound), kind.dtype()) for bound in given))


def _interpolate_helper(name: str, dim: int, interpolate_mode: str) -> Callable[..., Any]:
    """A symbolic function for one of torch's upsampling operators of this dimensionality."""
    operator = f"upsample_{INTERPOLATIONS[interpolate_mode]}{dim - 2}d"

    def symbolic(g: GraphContext, input: Any, output_size: Any, *args: Any) -> Any:
        return call_builtin(g, operator, (input, output_size, *args), {})

    return symbolic


def _get_interpolate_attributes(g: GraphContext, mode: str, args: Sequence[Any]) -> tuple[list[Any], Any]:
    """The scales and ``align_corners`` among the last arguments of an upsampling operator."""
    if mode == "nearest":
        return list(args), None
    return list(args[1:]), args[0]


def _interpolate_get_scales(g: GraphContext, scale_factor: Any, dim: int) -> Any:
    """The scale of each axis, 1 for the first two."""
    scales = _maybe_get_const(scale_factor, "fs")
    if isinstance(scales, Value):
        return g.op("Concat", g.constant([1.0, 1.0]), _vector(g, scales), axis_i=0)
    scales = scales if isinstance(scales, list) else [float(scales)]
    return g.constant([1.0, 1.0, *(scales * (dim - 2) if len(scales) == 1 else scales)])


def _constants(numbers: Any) -> list[Any]:
    """A number, a list of them, or a constant value, as a list of numbers."""
    if isinstance(numbers, Value) or _is_packed_list(numbers):
        return list(_get_const(numbers, "is", "axes"))
    if isinstance(numbers, torch.Tensor):
        return list(numbers.flatten().tolist())
    return [_get_const(n, "i", "axes") for n in numbers] if isinstance(numbers, (list, tuple)) else [numbers]


def _optional_input_placeholder_tensor(g: GraphContext) -> Value:
    """The value for an omitted input."""
    return Value(g)


def _set_opset_version(opset_version: int) -> None:
    """The opset is an argument of the export; there is nothing to set."""


def _set_operator_export_type(operator_export_type: Any) -> None:
    """The export type is an argument of the export; there is nothing to set."""
