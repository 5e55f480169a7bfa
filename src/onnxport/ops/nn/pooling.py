"""Pooling with windows of a given size; for a given result size see adaptive_pooling.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.graph.sizes import Shape, Size, product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter, entries
from onnxport.lower.value import AnySize, Value

Ints = Sequence[int]
FIRST_DILATION = 10


@dataclass(frozen=True)
class Windows:
    """The windows of a pool; each list has one entry per spatial axis."""

    kernel: list[int]
    stride: list[int]
    begins: list[int]
    ends: list[int]
    dilation: list[int]
    ceil: bool = False


def _max_pool(spatial: int) -> Callable[..., Value]:
    def convert(
        g: Builder,
        self: Value,
        kernel_size: Sequence[AnySize],
        stride: Ints = (),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> Value:
        """aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"""  # noqa: E501
        reduced, kernel, steps = _reduced(g, self, kernel_size, stride, padding, spatial, "Max")
        return max_pool(g, reduced, _windows(reduced, spatial, kernel, steps, padding, dilation, ceil_mode))

    return convert


def _max_pool_with_indices(spatial: int) -> Callable[..., tuple[Value, Value]]:
    def convert(
        g: Builder,
        self: Value,
        kernel_size: Sequence[AnySize],
        stride: Ints = (),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Value, Value]:
        """aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"""  # noqa: E501
        kernel = [size for size in kernel_size if isinstance(size, int)]
        if len(kernel) == len(kernel_size):
            windows = _windows(self, spatial, kernel, stride, padding, dilation, ceil_mode)
            return max_with_indices(g, self, windows)
        reduced, kernel, _ = _reduced(g, self, kernel_size, stride, padding, spatial, "Max")
        if kernel != [1] * spatial or reduced.shape is None or reduced.shape[-spatial:] != (1,) * spatial:
            g.unsupported("the indices of a max pool with a window or stride that is only known at run time")
        return whole_plane_with_indices(g, self, spatial)

    return convert


def _average_pool(spatial: int) -> Callable[..., Value]:
    def convert(
        g: Builder,
        self: Value,
        kernel_size: Sequence[AnySize],
        stride: Ints = (),
        padding: Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        """aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""  # noqa: E501
        reduced, kernel, steps = _reduced(g, self, kernel_size, stride, padding, spatial, "Average")
        windows = _windows(reduced, spatial, kernel, steps, padding, (1,), ceil_mode)
        if divisor_override is not None:
            if reduced is not self:
                g.unsupported("divisor_override with a window whose size is only known at run time")
            return _divided(g, self, windows, divisor_override)
        if count_include_pad and any(windows.begins) and windows.ends != windows.begins:
            return average_pool(g, *_padded(g, reduced, windows))
        return average_pool(g, reduced, windows, count_include_pad and any(windows.begins))

    return convert


CONVERTERS = [
    *entries(_max_pool, {f"aten::max_pool{n}d": n for n in (1, 2, 3)}),
    *entries(_max_pool_with_indices, {f"aten::max_pool{n}d_with_indices": n for n in (1, 2, 3)}),
    *entries(_average_pool, {f"aten::avg_pool{n}d": n for n in (1, 2, 3)}),
]


@converter("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(
    g: Builder,
    self: Value,
    indices: Value,
    output_size: Sequence[AnySize],
    stride: Ints = (),
    padding: Ints = (),
) -> Value:
    """aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor"""
    assert self.shape is not None
    target = g.outputs[0].shape
    spatial = len(output_size)
    lead = self.shape[:-spatial]
    pooled, plane = (*lead, product(self.shape[-spatial:])), (*lead, product(target[-spatial:]))
    zeros = emit.filled(g, plane, 0, self.dtype)
    flat_indices, values = emit.reshape(g, indices, pooled), emit.reshape(g, self, pooled)
    planes = emit.scatter_elements(g, zeros, flat_indices, values, len(lead))
    return emit.reshape(g, g.typed(planes, self.dtype, plane), target)


def max_pool(g: Builder, x: Value, windows: Windows) -> Value:
    """Keeps ONNX Runtime from turning zeros before a max pool into the pool's own padding, which is -inf.

    It leaves a pool alone that has explicit padding of 0.
    """
    if g.opset < FIRST_DILATION and any(step != 1 for step in windows.dilation):
        return _dilated_max_pool(g, x, windows)
    if windows.ceil or not _follows_zeros(x):
        return _add_pool(g, "MaxPool", x, windows)
    if any(windows.begins + windows.ends):
        least = -math.inf if x.is_float else torch.iinfo(x.dtype).min
        lead = [0] * (x.rank - len(windows.kernel))
        x = emit.pad(g, x, [*lead, *windows.begins, *lead, *windows.ends], value=least)
    none = [0] * len(windows.kernel)
    windows = Windows(windows.kernel, windows.stride, none, none, windows.dilation)
    return _add_pool(g, "MaxPool", x, windows, auto_pad="VALID", pads=None)


def _dilated_max_pool(g: Builder, x: Value, windows: Windows) -> Value:
    """A max pool as maximum of slices along one axis after the other, followed by a slice with the stride.

    The slices start and end at constants, so this works at every size.
    """
    assert x.shape is not None
    spatial = len(windows.kernel)
    lead = x.rank - spatial
    reach = [step * (width - 1) for step, width in zip(windows.dilation, windows.kernel, strict=True)]
    ends = windows.ends
    if windows.ceil:
        settings = zip(x.shape[lead:], reach, windows.stride, windows.begins, strict=True)
        ends = [_end_pad(size, far, move, pad) for size, far, move, pad in settings]
    x = emit.pad(g, x, [*[0] * lead, *windows.begins, *[0] * lead, *ends], value=-math.inf)
    for axis, (width, step, far) in enumerate(zip(windows.kernel, windows.dilation, reach, strict=True), start=lead):
        if far:
            starts = [step * offset for offset in range(width)]
            parts = [emit.slice_(g, x, [start], [start - far or emit.INT64_MAX], [axis]) for start in starts]
            sizes_before = x.shape or ()
            shape = (*sizes_before[:axis], sizes_before[axis] - far, *sizes_before[axis + 1 :])
            x = g.typed(g.op("Max", *parts), x.dtype, shape)
    none, one = [0] * spatial, [1] * spatial
    # ONNX Runtime's MaxPool of only -inf is the lowest finite number; AveragePool is right.
    return _add_pool(g, "AveragePool", x, Windows(one, windows.stride, none, none, one))


def _follows_zeros(x: Value) -> bool:
    """Whether the value is the result of a Pad with zeros."""
    node = x.ir.producer() if x.ir is not None else None
    if node is None or node.op_type != "Pad" or node.attributes.get_string("mode", "constant") != "constant":
        return False
    return len(node.inputs) < 3 and node.attributes.get_float("value", 0.0) == 0


@converter("aten::max_pool2d_with_indices_backward")
def max_pool_backward(g: Builder, grad_output: Value, self: Value, indices: Value, **windows: object) -> Value:
    """aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"""  # noqa: E501
    assert self.shape is not None and indices.shape is not None
    lead = self.shape[:-2]
    pooled, plane = (*lead, product(indices.shape[-2:])), (*lead, product(self.shape[-2:]))
    zeros = emit.filled(g, plane, 0, self.dtype)
    flat_indices, values = emit.reshape(g, indices, pooled), emit.reshape(g, grad_output, pooled)
    planes = emit.scatter_elements(g, zeros, flat_indices, values, len(lead), "add")
    return emit.reshape(g, g.typed(planes, self.dtype, plane), self.shape)


def average_pool(g: Builder, x: Value, windows: Windows, include_pads: bool = False) -> Value:
    return _add_pool(g, "AveragePool", x, windows, count_include_pad=1 if include_pads else None)


def max_with_indices(g: Builder, x: Value, windows: Windows) -> tuple[Value, Value]:
    """ONNX's indices count through the whole tensor, torch's from the start of each plane."""
    if not wants_indices(g):
        values = max_pool(g, x, windows)
        return values, values
    g.require(8, "the indices of a max pool")
    spatial = len(windows.kernel)
    batched = x.rank == spatial + 2
    source = x if batched else emit.unsqueeze(g, x, [0])
    values, indices = g.op("MaxPool", source, outputs=2, **_attributes(g, windows))
    shape = _result_shape(source, windows)
    g.typed(values, values.dtype, shape)
    indices = emit.modulo(g, g.typed(indices, torch.int64, shape), _plane(g, x, spatial))
    return (values, indices) if batched else (emit.squeeze(g, values, [0]), emit.squeeze(g, indices, [0]))


def wants_indices(g: Builder) -> bool:
    """Whether the second result is used. If not, the first one is returned instead."""
    return any(value is g.outputs[1] for value in g.context.graph.block.outer_values())


def whole_plane(g: Builder, x: Value, spatial: int, kind: str) -> Value:
    """The maximum or average of each plane, whatever its size."""
    assert x.shape is not None
    if x.rank == spatial + 2 and g.runs(f"Global{kind}Pool", x.dtype):
        return g.typed(g.op(f"Global{kind}Pool", x), x.dtype, (*x.shape[:-spatial], *[1] * spatial))
    return emit.reduce(g, "ReduceMean" if kind == "Average" else "ReduceMax", x, range(x.rank - spatial, x.rank), True)


def whole_plane_with_indices(g: Builder, x: Value, spatial: int) -> tuple[Value, Value]:
    values = whole_plane(g, x, spatial, "Max")
    if not wants_indices(g):
        return values, values
    assert x.shape is not None
    planes = emit.reshape(g, x, (*x.shape[:-spatial], product(x.shape[-spatial:])))
    indices = g.op("ArgMax", planes, axis=planes.rank - 1, keepdims=1)
    return values, emit.unsqueeze(g, indices, range(x.rank - spatial + 1, x.rank))


def _windows(
    x: Value, spatial: int, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Windows:
    assert x.shape is not None
    kernel = _each(kernel_size, spatial)
    strides = _each(stride, spatial) if stride else kernel
    pads, steps = _each(padding, spatial), _each(dilation, spatial)
    ends = [
        _end_pad(size, reach=step * (width - 1), stride=move, pad=pad) if ceil_mode else pad
        for size, width, move, pad, step in zip(x.shape[-spatial:], kernel, strides, pads, steps, strict=True)
    ]
    if all(end < width for end, width in zip(ends, kernel, strict=True)):
        return Windows(kernel, strides, pads, ends, steps)
    # ONNX Runtime refuses padding as large as the kernel, which dilation may need.
    return Windows(kernel, strides, pads, pads, steps, ceil=True)


def _end_pad(size: Size, reach: int, stride: int, pad: int) -> int:
    """The padding at the end with which ONNX's floor mode has the windows of torch's ceil_mode, at every size.

    Rounding up is the same as padding by stride - 1 more. torch then drops a last window that starts in the padding: it
    starts before the padding as long as the padding is not larger than the window.
    """
    end = min(pad + stride - 1, reach)
    unused = (size + pad + end - reach - 1) % stride if isinstance(size, int) else 0
    return max(end - unused, pad)


def _padded(g: Builder, x: Value, windows: Windows) -> tuple[Value, Windows]:
    """A separate Pad for the padding that counts, so that what ceil_mode adds at the end does not count."""
    assert x.shape is not None
    spatial = len(windows.begins)
    lead = [0] * (x.rank - spatial)
    padded = emit.pad(g, x, [*lead, *windows.begins, *lead, *windows.begins])
    sizes_now = tuple(size + 2 * pad for size, pad in zip(x.shape[-spatial:], windows.begins, strict=True))
    g.typed(padded, x.dtype, (*x.shape[:-spatial], *sizes_now))
    rest = [end - begin for end, begin in zip(windows.ends, windows.begins, strict=True)]
    return padded, Windows(windows.kernel, windows.stride, [0] * spatial, rest, windows.dilation)


def _divided(g: Builder, x: Value, windows: Windows, divisor: int) -> Value:
    """The sum over each window, divided by a given divisor."""
    if not x.is_float:
        average = average_pool(g, g.cast(x, torch.float32), windows, include_pads=any(windows.ends))
        total = emit.round_(g, g.op("Mul", average, float(math.prod(windows.kernel))))
        return g.op("Div", g.cast(total, x.dtype), divisor)
    average = average_pool(g, x, windows, include_pads=any(windows.ends))
    factor = math.prod(windows.kernel) / divisor
    return average if factor == 1 else g.op("Mul", average, factor)


def _add_pool(g: Builder, op: str, x: Value, windows: Windows, **more: Any) -> Value:
    """The pool over an input with a batch dimension, which torch may leave out."""
    if {*windows.kernel, *windows.stride} == {1} and not any(windows.begins + windows.ends):
        return x
    batched = x.rank == len(windows.kernel) + 2
    source = x if batched else emit.unsqueeze(g, x, [0])
    result = g.op(op, source, **{**_attributes(g, windows), **more})
    g.typed(result, result.dtype, _result_shape(source, windows))
    return result if batched else emit.squeeze(g, result, [0])


def _attributes(g: Builder, windows: Windows) -> dict[str, Any]:
    dilated = any(step != 1 for step in windows.dilation)
    if dilated:
        g.require(FIRST_DILATION, "a max pool with dilation that gives indices")
    return {
        "ceil_mode": 1 if windows.ceil else None,
        "dilations": windows.dilation if dilated else None,
        "kernel_shape": windows.kernel,
        "pads": windows.begins + windows.ends,
        "strides": windows.stride,
    }


def _result_shape(x: Value, windows: Windows) -> Shape | None:
    assert x.shape is not None
    if windows.ceil:
        return None
    spatial = len(windows.kernel)
    results = []
    for axis, size in enumerate(x.shape[-spatial:]):
        reach = windows.dilation[axis] * (windows.kernel[axis] - 1)
        room = size + (windows.begins[axis] + windows.ends[axis] - reach - 1)
        results.append(room // windows.stride[axis] + 1)
    return (*x.shape[:-spatial], *results)


def _plane(g: Builder, x: Value, spatial: int) -> Value | int:
    """The number of elements of a plane."""
    assert x.shape is not None
    static = math.prod(size for size in x.shape[-spatial:] if isinstance(size, int))
    result: Value | int = static
    for size in x.shape[-spatial:]:
        if not isinstance(size, int):
            factor = sizes.scalar(g, size)
            result = factor if result == 1 else g.op("Mul", factor, result)
    return result


def _reduced(
    g: Builder,
    x: Value,
    kernel_size: Sequence[AnySize],
    stride: Sequence[AnySize],
    padding: Ints,
    spatial: int,
    kind: str,
) -> tuple[Value, list[int], list[int]]:
    """Reduce axes where the window is the whole axis, by a run-time size (``F.avg_pool2d(x, x.shape[2:])``).

    Returns the input of the remaining pool, its kernel and its stride, which are 1 on those axes.
    """
    assert x.shape is not None
    whole = [axis for axis, size in enumerate(kernel_size) if not isinstance(size, int)]
    pads, extent = _each(padding, spatial), x.shape[-spatial:]
    if any(pads[axis] or sizes.known(kernel_size[axis]) != extent[axis] for axis in whole):
        g.unsupported("a window whose size is only known at run time has to be as long as the axis, without padding")
    kernel = [size if isinstance(size, int) else 1 for size in kernel_size]
    steps = [1 if axis in whole else size for axis, size in enumerate(stride)]
    if any(not isinstance(step, int) for step in steps):
        g.unsupported("a stride that is only known at run time")
    if len(whole) == spatial:
        x = whole_plane(g, x, spatial, kind)
    else:
        op = "ReduceMean" if kind == "Average" else "ReduceMax"
        x = emit.reduce(g, op, x, [x.rank - spatial + axis for axis in whole], True)
    return x, kernel, [step for step in steps if isinstance(step, int)]


def _each(setting: Ints, spatial: int) -> list[int]:
    """A setting for each spatial axis, from one for all or one for each."""
    return list(setting) * (spatial // len(setting))
