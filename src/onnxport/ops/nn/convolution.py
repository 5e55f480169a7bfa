"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value


@converter("aten::_convolution", "aten::convolution", "aten::convolution_overrideable")
def convolution(
    g: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[AnySize],
    groups: int,
    **backend: bool,
) -> Value:
    """aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""  # noqa: E501
    if transposed:
        return conv_transpose(g, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(g, input, weight, bias, stride, padding, dilation, groups)


@converter("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution_mode")
def conv(
    g: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[AnySize] | str = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    """aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1) -> Tensor"""  # noqa: E501
    spatial = weight.rank - 2
    steps = _each(dilation, spatial)
    if isinstance(padding, str):
        pads = _same_pads(g, weight, steps) if padding == "same" else [0] * 2 * spatial
    elif any(not isinstance(amount, int) for amount in padding):
        lead, around = [0] * (input.rank - spatial), list(padding) * (spatial // len(padding))
        input, pads = emit.pad(g, input, [*lead, *around, *lead, *around]), [0] * 2 * spatial
    else:
        pads = _each([amount for amount in padding if isinstance(amount, int)], spatial) * 2
    return _batched(
        g, "Conv", input, weight, bias,
        dilations=steps, group=groups, kernel_shape=_kernel(weight), pads=pads, strides=_each(stride, spatial),
    )  # fmt: skip


@converter("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d")
def conv_transpose(
    g: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[AnySize] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Value:
    """aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor"""  # noqa: E501
    spatial = weight.rank - 2
    known = [size for size in map(sizes.known, output_padding) if isinstance(size, int)]
    if len(known) < len(output_padding):
        # Output padding is an attribute: compute with the largest that torch accepts, and cut off the rest.
        most = [max(steps) - 1 for steps in zip(_each(stride, spatial), _each(dilation, spatial), strict=True)]
        result = conv_transpose(g, input, weight, bias, stride, padding, most, groups, dilation)
        return emit.slice_(g, result, [0] * spatial, (g.outputs[0].shape or ())[-spatial:], range(-spatial, 0))
    pads, more, strides = (_each(setting, spatial) for setting in (padding, known, stride))
    attributes = {"dilations": _each(dilation, spatial), "group": groups, "kernel_shape": _kernel(weight)}
    if all(amount < step for amount, step in zip(more, strides, strict=True)):
        padded = more if any(more) else None
        return _batched(
            g, "ConvTranspose", input, weight, bias, output_padding=padded, pads=pads * 2, strides=strides, **attributes
        )
    # The runtime refuses output padding as large as the stride: crop less at the end, and add what is missing.
    ends = [max(amount - extra, 0) for amount, extra in zip(pads, more, strict=True)]
    result = _batched(g, "ConvTranspose", input, weight, None, pads=pads + ends, strides=strides, **attributes)
    added = [max(extra - amount, 0) for amount, extra in zip(pads, more, strict=True)]
    lead = [0] * (input.rank - spatial)
    result = emit.pad(g, result, [*lead, *[0] * spatial, *lead, *added])
    return result if bias is None else g.op("Add", result, emit.unsqueeze(g, bias, range(1, 1 + spatial)))


@converter("aten::conv_tbc")
def conv_tbc(g: Builder, self: Value, weight: Value, bias: Value, pad: int = 0) -> Value:
    """aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor

    Time comes first, and the weight is (time, in, out).
    """
    signal, kernel = emit.transpose(g, self, [1, 2, 0]), emit.transpose(g, weight, [2, 1, 0])
    return emit.transpose(g, conv(g, signal, kernel, bias, padding=[pad]), [2, 0, 1])


def _batched(g: Builder, op: str, input: Value, weight: Value, bias: Value | None, **attributes: Any) -> Value:
    """The convolution with a batch dimension, which torch may leave out."""
    if input.rank == weight.rank:
        result: Value = g.op(op, input, weight, bias, **attributes)
        return result
    return emit.squeeze(g, g.op(op, emit.unsqueeze(g, input, [0]), weight, bias, **attributes), [0])


def _same_pads(g: Builder, weight: Value, dilation: Sequence[int]) -> list[int]:
    """The padding that keeps the size at stride 1; for even kernels the end gets one more."""
    kernel = _kernel(weight)
    if kernel is None:
        g.unsupported("padding='same' needs a weight with a static kernel size")
    total = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
    begins = [amount // 2 for amount in total]
    return begins + [amount - begin for amount, begin in zip(total, begins, strict=True)]


def _kernel(weight: Value) -> list[int] | None:
    """The kernel's size; None if it is only known at run time."""
    assert weight.shape is not None
    kernel = [size for size in weight.shape[2:] if isinstance(size, int)]
    return kernel if len(kernel) == weight.rank - 2 else None


def _each(setting: Sequence[int], spatial: int) -> list[int]:
    """A setting for each spatial axis, from one for all or one for each."""
    return list(setting) * (spatial // len(setting))
