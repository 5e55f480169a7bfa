"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import AnySize, Operand, Value

# ONNX's modes for torch's names, and for its numbers in aten::_pad_enum.
MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
ENUM = ("constant", "reflect", "edge", "wrap")


@converter("aten::pad")
def pad(g: Builder, self: Value, pad: list[AnySize], mode: str = "constant", value: Operand | None = None) -> Value:
    """aten::pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    return _padded(g, self, pad, MODES[mode], value)


@converter("aten::_pad_enum")
def pad_enum(g: Builder, self: Value, pad: list[AnySize], mode: int, value: Operand | None = None) -> Value:
    """aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor"""
    return _padded(g, self, pad, ENUM[mode], value)


@converter("aten::constant_pad_nd")
def constant_pad_nd(g: Builder, self: Value, pad: list[AnySize], value: Operand = 0) -> Value:
    """aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    return _padded(g, self, pad, "constant", value)


@converter("aten::_pad_circular")
def pad_circular(g: Builder, self: Value, pad: list[AnySize]) -> Value:
    """aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor"""
    return _padded(g, self, pad, "wrap")


def _edges(mode: str) -> Converter:
    def convert(g: Builder, self: Value, padding: list[AnySize]) -> Value:
        return _padded(g, self, padding, mode)

    return convert


EDGES = entries(
    _edges,
    {
        "aten::reflection_pad1d": "reflect",
        "aten::reflection_pad2d": "reflect",
        "aten::reflection_pad3d": "reflect",
        "aten::replication_pad1d": "edge",
        "aten::replication_pad2d": "edge",
        "aten::replication_pad3d": "edge",
    },
)


def _padded(g: Builder, x: Value, pad: Sequence[AnySize], mode: str, value: Operand | None = None) -> Value:
    """torch has pairs of before and after, from the last axis backwards."""
    before, after = [*pad[::2]], [*pad[1::2]]
    lead: list[AnySize] = [0] * (x.rank - len(before))
    befores, afters = [*lead, *before[::-1]], [*lead, *after[::-1]]
    if mode == "constant":
        return emit.pad(g, x, [*befores, *afters], value=0 if value is None else value)
    if mode == "wrap":
        return _wrapped(g, _cropped(g, x, befores, afters), _grow(befores), _grow(afters))
    return _cropped(g, emit.pad(g, x, [*_grow(befores), *_grow(afters)], mode=mode), befores, afters)


def _grow(amounts: Sequence[AnySize]) -> list[AnySize]:
    return [0 if isinstance(amount, int) and amount < 0 else amount for amount in amounts]


def _cropped(g: Builder, x: Value, befores: Sequence[AnySize], afters: Sequence[AnySize]) -> Value:
    """The tensor cropped by negative padding."""
    starts = [-amount if isinstance(amount, int) and amount < 0 else 0 for amount in befores]
    ends = [amount if isinstance(amount, int) and amount < 0 else emit.INT64_MAX for amount in afters]
    axes = [i for i in range(len(starts)) if starts[i] != 0 or ends[i] != emit.INT64_MAX]
    return emit.slice_(g, x, [starts[i] for i in axes], [ends[i] for i in axes], axes) if axes else x


def _wrapped(g: Builder, x: Value, befores: Sequence[AnySize], afters: Sequence[AnySize]) -> Value:
    """Pad has the mode from opset 19; before that each axis is concatenated from its end, itself and its start.

    The runtime refuses the mode for a tensor without elements.
    """
    if g.opset >= 19 and 0 not in (x.shape or ()):
        return emit.pad(g, x, [*befores, *afters], mode="wrap")
    for axis, (before, after) in enumerate(zip(befores, afters, strict=True)):
        parts = [x]
        if before != 0:
            start = (
                -before if isinstance(before, int) else g.op("Neg", before) if isinstance(before, Value) else -before
            )
            parts.insert(0, emit.slice_(g, x, [start], [emit.INT64_MAX], [axis]))
        if after != 0:
            parts.append(emit.slice_(g, x, [0], [after], [axis]))
        if len(parts) > 1:
            x = g.op("Concat", *parts, axis=axis)
    return x
