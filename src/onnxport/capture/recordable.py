"""Calls that torch's tracer cannot record, in another form: bools in the place of numbers, functions of sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport import compat

# These take a 0-dim tensor as well, and a bool changes the dtype of no result.
TAKE_TENSORS = frozenset(
    {
        "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "not_equal",
        "less", "less_equal", "greater", "greater_equal", "where", "pow", "__rpow__",
        "float_power", "rsub", "__rsub__", "remainder", "__mod__", "__rmod__", "fmod", "xlogy", "lerp", "masked_fill",
        "masked_fill_", "fill_", "index_fill", "index_fill_", "bitwise_and", "bitwise_or", "bitwise_xor",
        "bitwise_and_", "bitwise_or_", "bitwise_xor_", "__and__", "__or__", "__xor__", "__rand__", "__ror__",
        "__rxor__", "__iand__", "__ior__", "__ixor__",
    }
)  # fmt: skip
# These keep the dtype of a tensor that they are given, or are told one.
TAKE_INTEGERS = frozenset(
    {
        "full_like", "new_full", "scatter", "scatter_", "constant_pad_nd", "clamp", "clamp_", "clamp_min",
        "clamp_max", "clip", "full", "scalar_tensor", "index_add", "index_add_", "_unsafe_masked_index",
    }
)  # fmt: skip
# These have the dtype of the number.
FOLLOW_NUMBER = {"full": torch.bool, "scalar_tensor": torch.float32}
# Functions of sizes, which are tensors in a trace.
OF_SIZES: dict[str, Callable[..., Any]] = {
    "sym_max": torch.maximum,
    "sym_min": torch.minimum,
    "sym_not": torch.logical_not,
}
NUMBERS = frozenset({"other", "value", "fill_value", "exponent", "min", "max", "input", "self", "alpha"})
UNPOOLS = compat.functional.UNPOOLS
# The functions whose calls may need another form.
OTHERWISE_RECORDED = TAKE_TENSORS | TAKE_INTEGERS | OF_SIZES.keys() | {"fill"} | {f.__name__ for f in UNPOOLS}

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def recordable(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """A call of a torch function in a form that can be traced."""
    name = getattr(function, "__name__", "")
    if name in OF_SIZES:
        followed = any(isinstance(argument, torch.Tensor) for argument in args)
        return (OF_SIZES[name], tuple(map(torch.as_tensor, args)), kwargs) if followed else (function, args, kwargs)
    if name == "fill":
        return _filled, args, kwargs
    if function in UNPOOLS:
        return functools.partial(_unpooled, UNPOOLS[function]), args, kwargs
    named = {key for key, value in kwargs.items() if key in NUMBERS and isinstance(value, bool)}
    if not named and not any(isinstance(argument, bool) for argument in args):
        return function, args, kwargs
    convert = torch.tensor if name in TAKE_TENSORS else int
    if name in FOLLOW_NUMBER and kwargs.get("dtype") is None:
        kwargs = kwargs | {"dtype": FOLLOW_NUMBER[name]}
    return (
        function,
        tuple(convert(argument) if isinstance(argument, bool) else argument for argument in args),
        {key: convert(value) if key in named else value for key, value in kwargs.items()},
    )


def _filled(input: torch.Tensor, value: Any) -> torch.Tensor:
    """``torch.fill``, which the tracer cannot record whatever the number is."""
    return input.clone().fill_(torch.tensor(value) if isinstance(value, bool) else value)


def _unpooled(
    dims: int,
    input: torch.Tensor,
    indices: torch.Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[Any] | None = None,
) -> torch.Tensor:
    """``torch.nn.functional.max_unpool2d`` and its like. Whether the size fits, a call without a trace tells."""
    kernel, pads = _each(kernel_size, dims), _each(padding, dims)
    strides = _each(stride, dims) if stride else kernel
    if output_size is None:
        steps = zip(input.shape[-dims:], strides, kernel, pads, strict=True)
        output_size = [(size - 1) * step + width - 2 * pad for size, step, width, pad in steps]
    size = list(output_size)[-dims:]
    unpool: Callable[..., torch.Tensor] = compat.unpool(max(dims, 2))
    if dims == 1:
        return unpool(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)
    return unpool(input, indices, size) if dims == 2 else unpool(input, indices, size, strides, pads)


def _each(setting: int | Sequence[int], dims: int) -> list[int]:
    return [setting] * dims if isinstance(setting, int) else list(setting)
