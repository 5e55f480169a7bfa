"""New tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import AnySize, Operand, Value

# Longer ranges are made at run time rather than stored.
LONGEST_STORED = 65536


def _filled(number: float) -> Converter:
    def convert(g: Builder, size: list[AnySize] | None = None, self: Value | None = None, **options: Any) -> Value:
        output = g.outputs[0]
        return emit.filled(g, output.shape if size is None else size, number, output.dtype)

    return convert


# Uninitialized tensors are zeros: their content may not be read.
FILLED = entries(
    _filled,
    {
        "aten::zeros": 0,
        "aten::zeros_like": 0,
        "aten::new_zeros": 0,
        "aten::ones": 1,
        "aten::ones_like": 1,
        "aten::new_ones": 1,
        "aten::empty": 0,
        "aten::empty_like": 0,
        "aten::empty_strided": 0,
        "aten::empty_permuted": 0,
        "aten::new_empty": 0,
        "aten::new_empty_strided": 0,
    },
)


@converter("aten::full", "aten::full_like", "aten::new_full")
def full(
    g: Builder, fill_value: Operand, size: list[AnySize] | None = None, self: Value | None = None, **options: Any
) -> Value:
    """aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    output = g.outputs[0]
    return emit.filled(g, output.shape if size is None else size, fill_value, output.dtype)


@converter("aten::fill")
def fill(g: Builder, self: Value, value: Operand) -> Value:
    """aten::fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    output = g.outputs[0]
    return emit.filled(g, output.shape, value, output.dtype)


@converter("aten::scalar_tensor")
def scalar_tensor(g: Builder, s: Operand, **options: Any) -> Value:
    """aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return g.cast(s, g.outputs[0].dtype)


@converter("aten::eye")
def eye(g: Builder, n: AnySize, m: AnySize | None = None, **options: Any) -> Value:
    """aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    output = g.outputs[0]
    rows, columns = output.shape
    if isinstance(rows, int) and isinstance(columns, int):
        return g.constant(torch.eye(rows, columns, dtype=output.dtype))
    zeros = emit.filled(
        g, [n, n if m is None else m], 0, output.dtype if g.runs("EyeLike", output.dtype) else torch.float32
    )
    return g.typed(g.op("EyeLike", zeros), zeros.dtype, output.shape)


@converter("aten::arange", "aten::range")
def arange(g: Builder, end: Operand, start: Operand = 0, step: Operand = 1, **options: Any) -> Value:
    """aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _laid_out(g, _counted(g, start, end, step))


def _laid_out(g: Builder, values: Value) -> Value:
    """The elements in the shape of the result: a tensor given as ``out=`` keeps its own if it has as many elements."""
    shape = g.outputs[0].shape
    if len(shape) != 1:
        return emit.reshape(g, values, shape)
    return values if values.data is not None else g.typed(values, values.dtype, shape)


def _counted(g: Builder, start: Operand, end: Operand, step: Operand) -> Value:
    output = g.outputs[0]
    length = product(output.shape)
    bounds = (start, end, step)
    inclusive = g.origin is not None and g.origin.op == "aten::range"
    numbers = [bound for bound in bounds if not isinstance(bound, Value)]
    if len(numbers) == 3 and isinstance(length, int) and (length <= LONGEST_STORED or g.opset < 11):
        if inclusive:
            return g.constant(_stored_range(length, numbers[0], numbers[2], output.dtype))
        return g.constant(torch.arange(*numbers, dtype=output.dtype))
    whole, to_floats = all(_is_integer(bound) for bound in bounds), output.dtype.is_floating_point
    if whole or output.dtype == torch.int64 or (inclusive and not to_floats):
        first, last, stride = (_cut(g, bound) for bound in bounds)
        return emit.range_(g, first, _behind(g, last, stride) if inclusive else last, stride, torch.int64)
    if to_floats and not inclusive:
        return emit.range_(g, start, end, step, _range_dtype(output.dtype))
    return _range_by_length(g, start, end, step, inclusive)


@converter("aten::_dim_arange")
def dim_arange(g: Builder, like: Value, dim: int) -> Value:
    """aten::_dim_arange(Tensor like, int dim) -> Tensor"""
    return emit.counting(g, g.outputs[0].shape[0])


def _stored_range(length: int, start: float, step: float, dtype: torch.dtype) -> torch.Tensor:
    first, stride = (start, step) if dtype.is_floating_point else (int(start), int(step))
    return (torch.arange(length, dtype=torch.float64) * stride + first).to(dtype)


def _cut(g: Builder, bound: Operand) -> Operand:
    return g.cast(bound, torch.int64) if isinstance(bound, Value) else int(bound)


def _behind(g: Builder, last: Operand, step: Operand) -> Operand:
    """The integer after the last element of a range with an inclusive end."""
    return g.op("Add", g.cast(last, torch.int64), g.op("Sign", g.cast(step, torch.int64)))


def _range_by_length(g: Builder, start: Operand, end: Operand, step: Operand, inclusive: bool) -> Value:
    """The number of steps follows from the exact bounds, also if the elements are integers.

    Integer elements use the start and the step without their fractions.
    """
    dtype = g.outputs[0].dtype
    first, last, stride = (g.cast(bound, torch.float64) for bound in (start, end, step))
    count = g.op("Div", g.op("Sub", last, first), stride)
    count = g.op("Add", g.op("Floor", count), 1.0) if inclusive else g.op("Ceil", count)
    values = emit.range_(g, 0, g.cast(count, torch.int64), 1, torch.int64)
    to = _range_dtype(dtype) if dtype.is_floating_point else torch.int64
    factor, offset = (_cut(g, x) if to == torch.int64 else g.cast(x, to) for x in (step, start))
    scaled = g.op("Mul", g.cast(values, to), factor)
    return g.op("Add", scaled, offset)


def _is_integer(bound: Operand) -> bool:
    return not bound.is_float if isinstance(bound, Value) else isinstance(bound, int)


def _range_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


@converter("aten::linspace")
def linspace(g: Builder, start: Operand, end: Operand, steps: AnySize, **options: Any) -> Value:
    """aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    output = g.outputs[0]
    length = product(output.shape)
    if isinstance(length, int) and not isinstance(start, Value) and not isinstance(end, Value):
        return _laid_out(g, g.constant(torch.linspace(start, end, length, dtype=output.dtype)))
    return _laid_out(g, _spaced(g, start, end, steps))


@converter("aten::logspace")
def logspace(g: Builder, start: Operand, end: Operand, steps: AnySize, base: float = 10.0, **options: Any) -> Value:
    """aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    output = g.outputs[0]
    length = product(output.shape)
    if isinstance(length, int) and not isinstance(start, Value) and not isinstance(end, Value):
        return _laid_out(g, g.constant(torch.logspace(start, end, length, base, dtype=output.dtype)))
    exponents = _spaced(g, start, end, steps)
    return _laid_out(g, g.op("Pow", g.constant(base, exponents.dtype), exponents))


def _spaced(g: Builder, start: Operand, end: Operand, steps: AnySize) -> Value:
    """Equal steps from start to end, both included, as floats."""
    dtype = g.outputs[0].dtype if g.outputs[0].dtype in (torch.float32, torch.float64) else torch.float32
    first, last = g.cast(start, dtype), g.cast(end, dtype)
    known = sizes.known(steps)
    if isinstance(known, int):
        parts = g.constant(torch.linspace(0, 1, known, dtype=dtype))
        return g.op("Add", first, g.op("Mul", g.op("Sub", last, first), parts))
    count = sizes.scalar(g, steps)
    values = g.cast(emit.range_(g, 0, count, 1, torch.int64), dtype)
    # A single step is the start.
    intervals = g.cast(emit.maximum(g, g.op("Sub", count, 1), g.constant(1, torch.int64)), dtype)
    stride = g.op("Div", g.op("Sub", last, first), intervals)
    return g.op("Add", g.op("Mul", values, stride), first)
