"""Lists of tensors of unknown length, as ONNX sequences (from opset 11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.graph.ir import SequenceType
from onnxport.lower import emit, sequences, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value


def _position(g: Builder, index: AnySize) -> Value:
    return g.cast(index if isinstance(index, Value) else g.constant(index, torch.int64), torch.int64)


@converter("onnxport::sequence")
def sequence(g: Builder, tensors: Sequence[Value]) -> Value:
    """onnxport::sequence(Tensor[] tensors) -> Tensor[]"""
    kind = g.outputs[0].type
    assert isinstance(kind, SequenceType)
    dtype = kind.element.dtype
    if tensors:
        return sequences.sequence(g, "SequenceConstruct", *tensors, dtype=dtype)
    return sequences.empty(g, dtype)


@converter("onnxport::sequence_insert")
def sequence_insert(g: Builder, sequence: Value, tensor: Value, index: AnySize | None) -> Value:
    """onnxport::sequence_insert(Tensor[] sequence, Tensor tensor, int? index) -> Tensor[]"""
    position = None if index is None else _position(g, index)
    return sequences.sequence(g, "SequenceInsert", sequence, tensor, position, dtype=sequence.dtype)


@converter("onnxport::sequence_at")
def sequence_at(g: Builder, sequence: Value, index: AnySize) -> Value:
    """onnxport::sequence_at(Tensor[] sequence, int index) -> Tensor"""
    return g.op("SequenceAt", sequence, _position(g, index))


@converter("onnxport::sequence_erase")
def sequence_erase(g: Builder, sequence: Value, index: AnySize) -> Value:
    """onnxport::sequence_erase(Tensor[] sequence, int index) -> Tensor[]"""
    return sequences.sequence(g, "SequenceErase", sequence, _position(g, index), dtype=sequence.dtype)


@converter("onnxport::sequence_replace")
def sequence_replace(g: Builder, sequence: Value, index: AnySize, tensor: Value) -> Value:
    """onnxport::sequence_replace(Tensor[] sequence, int index, Tensor tensor) -> Tensor[]

    The new element is inserted before the old one, which is then erased.
    """
    position = _position(g, index)
    length = sequences.length(g, sequence)
    front = g.op("Where", g.op("Less", position, 0), g.op("Add", position, length), position)
    grown = sequences.sequence(g, "SequenceInsert", sequence, tensor, front, dtype=sequence.dtype)
    return sequences.sequence(g, "SequenceErase", grown, g.op("Add", front, 1), dtype=sequence.dtype)


@converter("onnxport::sequence_length")
def sequence_length(g: Builder, sequence: Value) -> Value:
    """onnxport::sequence_length(Tensor[] sequence) -> int"""
    return sequences.length(g, sequence)


@converter("onnxport::cat_sequence")
def cat_sequence(g: Builder, tensors: Value, dim: int = 0) -> Value:
    """onnxport::cat_sequence(Tensor[] tensors, int dim=0) -> Tensor"""
    return g.op("ConcatFromSequence", tensors, axis=dim % len(g.outputs[0].shape), new_axis=0)


@converter("onnxport::stack_sequence")
def stack_sequence(g: Builder, tensors: Value, dim: int = 0) -> Value:
    """onnxport::stack_sequence(Tensor[] tensors, int dim=0) -> Tensor"""
    return g.op("ConcatFromSequence", tensors, axis=dim % len(g.outputs[0].shape), new_axis=1)


@converter("onnxport::unbind_sequence")
def unbind_sequence(g: Builder, self: Value, dim: int = 0) -> Value:
    """onnxport::unbind_sequence(Tensor self, int dim=0) -> Tensor[]"""
    return g.op("SplitToSequence", self, axis=dim % self.rank, keepdims=0)


@converter("onnxport::split_sequence", "onnxport::split_with_sizes_sequence")
def split_sequence(
    g: Builder,
    self: Value,
    split_size: AnySize | Value | None = None,
    dim: int = 0,
    split_sizes: Value | Sequence[AnySize] | None = None,
) -> Value:
    """onnxport::split_sequence(Tensor self, int split_size, int dim=0) -> Tensor[]"""
    lengths: Any = split_size if split_size is not None else split_sizes
    split = sizes.vector(g, lengths) if isinstance(lengths, (list, tuple)) else _position(g, lengths)
    return g.op("SplitToSequence", self, split, axis=dim % self.rank)


@converter("onnxport::chunk_sequence")
def chunk_sequence(g: Builder, self: Value, chunks: AnySize, dim: int = 0) -> Value:
    """onnxport::chunk_sequence(Tensor self, int chunks, int dim=0) -> Tensor[]"""
    assert self.shape is not None
    count = _position(g, chunks)
    total = sizes.scalar(g, self.shape[dim])
    part = g.op("Div", g.op("Sub", g.op("Add", total, count), 1), count)
    return g.op("SplitToSequence", self, part, axis=dim % self.rank)


@converter("onnxport::sequence_join")
def sequence_join(g: Builder, left: Value, right: Value) -> Value:
    """onnxport::sequence_join(Tensor[] left, Tensor[] right) -> Tensor[]"""
    return sequences.picked(g, left, right, sequences.length(g, right), lambda inner, position: position)


@converter("onnxport::sequence_slice")
def sequence_slice(g: Builder, sequence: Value, start: AnySize | None, end: AnySize | None, step: AnySize = 1) -> Value:
    """onnxport::sequence_slice(Tensor[] sequence, int? start, int? end, int step=1) -> Tensor[]"""
    length = sequences.length(g, sequence)
    first = _clamped(g, 0 if start is None else start, length)
    last = length if end is None else _clamped(g, end, length)
    by = _position(g, step)
    span = g.op("Sub", g.op("Add", g.op("Sub", last, first), by), 1)
    count = emit.maximum(g, g.op("Div", span, by), g.constant(0, torch.int64))
    return sequences.picked(
        g,
        sequences.empty(g, sequence.dtype),
        sequence,
        count,
        lambda inner, position: inner.op("Add", inner.op("Mul", position, by), first),
    )


def _clamped(g: Builder, bound: AnySize, length: Value) -> Value:
    """A bound of a slice as a position from 0 to the length."""
    position = _position(g, bound)
    front = g.op("Where", g.op("Less", position, 0), g.op("Add", position, length), position)
    return emit.minimum(g, emit.maximum(g, front, g.constant(0, torch.int64)), length)


@converter("onnxport::optional")
def optional(g: Builder, present: Value | bool, tensor: Value) -> Value:
    """onnxport::optional(bool present, Tensor tensor) -> Tensor?

    An If with an optional as result: with the tensor, or empty.
    """
    g.require(16, "a result that may be None")
    flag = present if isinstance(present, Value) else g.constant(present, torch.bool)
    return sequences.optional(g, g.cast(flag, torch.bool), tensor, g.outputs[0].shape)
