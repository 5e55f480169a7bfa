"""Pools with windows of a given size. Those of a given result size are in adaptive_pooling.py."""

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
from onnxport.ops.nn.run_time_windows import average, each, is_fixed, largest, windows_along

Ints = Sequence[int]
FIRST_DILATION = 10


@dataclass(frozen=True)
class Windows:
    """Where a pool's windows lie; each list has one entry per spatial axis."""

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
        stride: Sequence[AnySize] = (),
        padding: Sequence[AnySize] = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> Value:
        """aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"""  # noqa: E501
        settings = kernel_size, stride, padding, dilation
        return max_pool(g, *_reduced(g, self, settings, spatial, "Max", ceil_mode))

    return convert


def _max_pool_with_indices(spatial: int) -> Callable[..., tuple[Value, Value]]:
    def convert(
        g: Builder,
        self: Value,
        kernel_size: Sequence[AnySize],
        stride: Sequence[AnySize] = (),
        padding: Sequence[AnySize] = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Value, Value]:
        """aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"""  # noqa: E501
        if is_fixed(*kernel_size, *stride, *padding) or not wants_indices(g):
            settings = kernel_size, stride, padding, dilation
            return max_with_indices(g, *_reduced(g, self, settings, spatial, "Max", ceil_mode))
        if g.outputs[0].shape[-spatial:] != (1,) * spatial or not _are_whole(self, kernel_size, padding, spatial):
            g.unsupported("the indices of a max pool whose windows are only partly known")
        return whole_plane_with_indices(g, self, spatial)

    return convert


def _average_pool(spatial: int) -> Callable[..., Value]:
    def convert(
        g: Builder,
        self: Value,
        kernel_size: Sequence[AnySize],
        stride: Sequence[AnySize] = (),
        padding: Sequence[AnySize] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        """aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""  # noqa: E501
        kind = "Average" if count_include_pad else "AverageInside"
        reduced, windows = _reduced(g, self, (kernel_size, stride, padding, (1,)), spatial, kind, ceil_mode)
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
    places, values = emit.reshape(g, indices, pooled), emit.reshape(g, self, pooled)
    planes = emit.scatter_elements(g, zeros, places, values, len(lead))
    return emit.reshape(g, g.typed(planes, self.dtype, plane), target)


def max_pool(g: Builder, x: Value, windows: Windows) -> Value:
    """Of zeros before a pool ONNX Runtime's optimiser makes padding of the pool's, which is less than every number.

    It leaves alone a pool that is said to have none.
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
    """The largest of slices along one axis after the other, and of the result every so many: a pool of single places.

    As long as the slices begin and end at constants, they can be said at every size.
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
            starts = [step * place for place in range(width)]
            parts = [emit.slice_(g, x, [start], [start - far or emit.INT64_MAX], [axis]) for start in starts]
            sizes_before = x.shape or ()
            shape = (*sizes_before[:axis], sizes_before[axis] - far, *sizes_before[axis + 1 :])
            x = g.typed(g.op("Max", *parts), x.dtype, shape)
    none, one = [0] * spatial, [1] * spatial
    # ONNX Runtime's MaxPool of nothing but -inf is the lowest finite number; its average is not.
    return _add_pool(g, "AveragePool", x, Windows(one, windows.stride, none, none, one))


def _follows_zeros(x: Value) -> bool:
    """Whether this is what a Pad gives that adds zeros."""
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
    places, values = emit.reshape(g, indices, pooled), emit.reshape(g, grad_output, pooled)
    planes = emit.scatter_elements(g, zeros, places, values, len(lead), "add")
    return emit.reshape(g, g.typed(planes, self.dtype, plane), self.shape)


def average_pool(g: Builder, x: Value, windows: Windows, include_pads: bool = False) -> Value:
    return _add_pool(g, "AveragePool", x, windows, count_include_pad=1 if include_pads else None)


def max_with_indices(g: Builder, x: Value, windows: Windows) -> tuple[Value, Value]:
    """ONNX counts through the whole tensor, torch from the beginning of each plane."""
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
    """Whether anything reads the second result. Where nothing does, the first is given in its place."""
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
    # ONNX Runtime refuses padding as wide as the kernel, which dilation may call for.
    return Windows(kernel, strides, pads, pads, steps, ceil=True)


def _end_pad(size: Size, reach: int, stride: int, pad: int) -> int:
    """The padding at the end with which ONNX's floor mode yields the windows of torch's ceil_mode, at every size.

    Rounding up is padding by stride - 1 more. torch then drops a last window that starts in the padding: it starts
    before that as long as the padding is no longer than the window reaches.
    """
    end = min(pad + stride - 1, reach)
    unused = (size + pad + end - reach - 1) % stride if isinstance(size, int) else 0
    return max(end - unused, pad)


def _padded(g: Builder, x: Value, windows: Windows) -> tuple[Value, Windows]:
    """The padding that counts as a node of its own, so that what ceil_mode adds at the end does not count."""
    assert x.shape is not None
    spatial = len(windows.begins)
    lead = [0] * (x.rank - spatial)
    padded = emit.pad(g, x, [*lead, *windows.begins, *lead, *windows.begins])
    sizes_now = tuple(size + 2 * pad for size, pad in zip(x.shape[-spatial:], windows.begins, strict=True))
    g.typed(padded, x.dtype, (*x.shape[:-spatial], *sizes_now))
    rest = [end - begin for end, begin in zip(windows.ends, windows.begins, strict=True)]
    return padded, Windows(windows.kernel, windows.stride, [0] * spatial, rest, windows.dilation)


def _divided(g: Builder, x: Value, windows: Windows, divisor: int) -> Value:
    """The sum over each window by a given divisor."""
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
    """How many elements a plane has."""
    assert x.shape is not None
    static = math.prod(size for size in x.shape[-spatial:] if isinstance(size, int))
    result: Value | int = static
    for size in x.shape[-spatial:]:
        if not isinstance(size, int):
            factor = sizes.scalar(g, size)
            result = factor if result == 1 else g.op("Mul", factor, result)
    return result


def _reduced(
    g: Builder, x: Value, given: tuple[Sequence[AnySize], ...], spatial: int, kind: str, ceil_mode: bool
) -> tuple[Value, Windows]:
    """Axes whose windows are only known at run time are pooled by themselves; those whose window is the whole axis
    (``F.avg_pool2d(x, x.shape[2:])``) are reduced.

    What is left to pool, with windows that leave such axes as they are. ``given`` has kernel, stride, padding and
    dilation.
    """
    kernel_size, stride, padding, dilation = given
    settings = [each(setting, spatial) for setting in (kernel_size, stride or kernel_size, padding, dilation)]
    free = [axis for axis in range(spatial) if not is_fixed(*(setting[axis] for setting in settings))]
    whole = [axis for axis in free if _is_whole(x, spatial, axis, settings[0][axis], settings[2][axis])]
    if len(whole) == spatial:
        x = whole_plane(g, x, spatial, "Max" if kind == "Max" else "Average")
    else:
        op = "ReduceMax" if kind == "Max" else "ReduceMean"
        x = emit.reduce(g, op, x, [x.rank - spatial + axis for axis in whole], True)
    for axis in free:
        if axis not in whole:
            kernel, step, pad, gap = (setting[axis] for setting in settings)
            if gap != 1:
                g.unsupported("a max pool with dilation whose windows are only known at run time")
            windows = windows_along(g, x, x.rank - spatial + axis, kernel, step, pad)
            x = largest(g, x, windows) if kind == "Max" else average(g, x, windows, count_padding=kind == "Average")
    none = (1, 1, 0, 1)
    fixed = [
        [size if isinstance(size, int) and axis not in free else without for axis, size in enumerate(setting)]
        for setting, without in zip(settings, none, strict=True)
    ]
    return x, _windows(x, spatial, fixed[0], fixed[1], fixed[2], fixed[3], ceil_mode)


def _is_whole(x: Value, spatial: int, axis: int, width: AnySize, padding: AnySize) -> bool:
    assert x.shape is not None
    return padding == 0 and sizes.known(width) == x.shape[x.rank - spatial + axis]


def _are_whole(x: Value, kernel_size: Sequence[AnySize], padding: Sequence[AnySize], spatial: int) -> bool:
    widths, pads = each(kernel_size, spatial), each(padding, spatial)
    return all(_is_whole(x, spatial, axis, widths[axis], pads[axis]) for axis in range(spatial))


def _each(setting: Ints, spatial: int) -> list[int]:
    """A setting that is given once for all spatial axes, or for each."""
    return list(setting) * (spatial // len(setting))
