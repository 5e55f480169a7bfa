"""Packed sequences: torch's layout without padding, and the padded layout with lengths that ONNX uses.

A packed value remembers the padded tensor it was made from. Recurrent layers and unpacking read that one, so packing
is dead code unless other operators use the packed rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Shape, Size
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.value import AnySize, Value

ROWS, BATCH_SIZES = "padded rows of a packed sequence", "lengths of a packed sequence"


@dataclass(frozen=True)
class Lengths:
    """The lengths of sequences in a padded batch: ``each`` is [batch]; ``mask`` [sequence, batch] is true inside."""

    each: Value
    mask: Value

    @property
    def shape(self) -> Shape:
        assert self.mask.shape is not None
        return self.mask.shape


@dataclass(frozen=True)
class Padded:
    """A padded batch [sequence, batch, ...]; ``clean`` says that it is 0 after the end of each sequence."""

    value: Value
    clean: bool


def lengths_of(g: Builder, each: Value, sequence: Size) -> Lengths:
    steps = emit.unsqueeze(g, emit.counting(g, sequence), [1])
    return Lengths(each, g.op("Less", steps, each))


def packed(g: Builder, padded: Padded, lengths: Lengths, shape: Shape) -> Value:
    """The rows inside the sequences, step by step: [rows, ...]."""
    (sequence, batch), rest = lengths.shape, (padded.value.shape or ())[2:]
    flat = emit.reshape(g, padded.value, (sequence * batch, *rest))
    rows = g.op("Compress", flat, emit.reshape(g, lengths.mask, (sequence * batch,)), axis=0)
    assert rows.ir is not None
    rows.ir.meta[ROWS] = padded
    return g.typed(rows, padded.value.dtype, shape)


def batch_sizes_of(g: Builder, lengths: Lengths, shape: Shape) -> Value:
    """The number of sequences at each step, up to the end of the longest."""
    counts = emit.reduce(g, "ReduceSum", g.cast(lengths.mask, torch.int64), [1], keepdims=False)
    result = g.op("Compress", counts, g.op("Greater", counts, 0), axis=0)
    assert result.ir is not None
    result.ir.meta[BATCH_SIZES] = lengths
    return g.typed(result, torch.int64, shape)


def read_lengths(g: Builder, batch_sizes: Value, batch: Size) -> Lengths:
    """The lengths for batch sizes, remembered or computed."""
    value = g.realise(batch_sizes)
    assert value.ir is not None and value.shape is not None
    found = value.ir.meta.get(BATCH_SIZES)
    if isinstance(found, Lengths):
        return found
    mask = g.op("Less", emit.counting(g, batch), emit.unsqueeze(g, value, [1]))
    each = emit.reduce(g, "ReduceSum", g.cast(mask, torch.int64), [0], keepdims=False)
    return Lengths(each, g.typed(mask, torch.bool, (value.shape[0], batch)))


def padded_rows(g: Builder, data: Value, lengths: Lengths) -> Padded:
    """The padded form of packed rows, remembered or made by a scatter of the rows."""
    assert data.ir is not None and data.shape is not None
    found = data.ir.meta.get(ROWS)
    if isinstance(found, Padded):
        return found
    g.require(11, "a packed sequence whose rows were computed outside of recurrent layers")
    indices = g.typed(g.op("NonZero", lengths.mask), torch.int64, (2, data.shape[0]))
    blank = emit.filled(g, (*lengths.shape, *data.shape[1:]), 0, data.dtype)
    return Padded(emit.scatter_nd(g, blank, emit.transpose(g, indices, [1, 0]), data), clean=True)


def unpacked(g: Builder, padded: Padded, lengths: Lengths, fill: float, longest: Size, total: AnySize) -> Value:
    """A padded batch with ``fill`` after each sequence. Its length is that of the longest sequence, or ``total``.

    ``longest`` is the length of the longest in the capture: torch's own call passes it as total, and the length then
    follows the lengths at run time.
    """
    value = padded.value
    if not padded.clean or fill != 0:
        mask = emit.unsqueeze(g, lengths.mask, list(range(2, value.rank)))
        value = emit.where(g, mask, value, fill, value.dtype)
    wanted, sequence = sizes.known(total), lengths.shape[0]
    if wanted is None or wanted == longest:
        end = emit.reduce(g, "ReduceMax", lengths.each, [0], keepdims=True)
        if g.opset >= 10:
            return g.op("Slice", value, g.constant([0]), end, g.constant([0]))
        return g.op("Compress", value, g.op("Less", emit.counting(g, sequence), end), axis=0)
    return emit.pad(g, value, [0] * value.rank + [wanted - sequence] + [0] * (value.rank - 1), value=fill)
