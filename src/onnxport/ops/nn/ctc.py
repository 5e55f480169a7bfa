"""The connectionist temporal classification loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.nn.pooling import wants_indices
from onnxport.ops.reduction.running import scan

Lengths = Value | Sequence[int]
MEAN, SUM = 1, 2


@dataclass(frozen=True)
class Alignment:
    """Log probabilities [time, batch, class], and for each sequence its labels with blanks around each label.

    ``input_lengths`` and ``target_lengths`` are [batch].
    """

    log_probs: Value
    labels: Value
    input_lengths: Value
    target_lengths: Value
    blank: int
    holds: bool  # whether a sequence may be shorter than the longest


@converter("aten::ctc_loss")
def ctc_loss(
    g: Builder,
    log_probs: Value,
    targets: Value,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
) -> Value:
    """aten::ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=Mean, bool zero_infinity=False) -> Tensor"""  # noqa: E501
    g.require(11, "the CTC loss")
    alignment = _alignment(g, log_probs, targets, input_lengths, target_lengths, blank)
    losses = _losses(g, alignment, zero_infinity)
    if reduction == MEAN:
        lengths = emit.clip(g, alignment.target_lengths, 1, None)
        return emit.reduce(g, "ReduceMean", g.op("Div", losses, g.cast(lengths, losses.dtype)), [0], keepdims=False)
    if reduction == SUM:
        return emit.reduce(g, "ReduceSum", losses, [0], keepdims=False)
    return emit.reshape(g, losses, g.outputs[0].shape)


@converter("aten::_ctc_loss")
def ctc_losses(
    g: Builder,
    log_probs: Value,
    targets: Value,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Value, Value]:
    """aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)"""  # noqa: E501
    if wants_indices(g):
        g.unsupported("the table of path probabilities, which is for the backward pass")
    g.require(11, "the CTC loss")
    alignment = _alignment(g, log_probs, targets, input_lengths, target_lengths, blank)
    losses = emit.reshape(g, _losses(g, alignment, zero_infinity), g.outputs[0].shape)
    return losses, losses


def _alignment(
    g: Builder, log_probs: Value, targets: Value, inputs: Lengths, lengths: Lengths, blank: int
) -> Alignment:
    single = log_probs.rank == 2
    probs = emit.unsqueeze(g, log_probs, [1]) if single else log_probs
    time, batch, _ = probs.shape or ()
    input_lengths, target_lengths = (_vector(g, values) for values in (inputs, lengths))
    ends = inputs.data.reshape(-1).tolist() if isinstance(inputs, Value) and inputs.data is not None else inputs
    holds = isinstance(ends, Value) or any(end != time for end in ends)
    labels = _padded(g, targets, batch, target_lengths) if targets.rank == 1 else targets
    return Alignment(probs, _spaced(g, g.cast(labels, torch.int64), blank), input_lengths, target_lengths, blank, holds)


def _vector(g: Builder, lengths: Lengths) -> Value:
    if isinstance(lengths, Value):
        return emit.reshape(g, g.cast(lengths, torch.int64), [-1])
    return g.constant(list(lengths), torch.int64)


def _padded(g: Builder, joined: Value, batch: AnySize, lengths: Value) -> Value:
    """Concatenated targets as rows of the longest length. Elements after a row's end are not read."""
    if batch == 1:
        return emit.unsqueeze(g, joined, [0])
    longest = _longest(g, lengths)
    starts = emit.unsqueeze(g, emit.cumsum(g, lengths, 0, exclusive=True), [1])
    indices = g.op("Add", starts, longest)
    within = g.op("Sub", sizes.scalar(g, (joined.shape or ())[0]), 1)
    return g.op("Gather", joined, emit.minimum(g, indices, within), axis=0)


def _longest(g: Builder, lengths: Value) -> Value:
    if lengths.data is not None:
        return g.constant(torch.arange(int(lengths.data.max())))
    return g.op(
        "Range", *(g.constant(0, torch.int64), g.op("ReduceMax", lengths, keepdims=0), g.constant(1, torch.int64))
    )


def _spaced(g: Builder, labels: Value, blank: int) -> Value:
    """A blank before, between and after the labels."""
    blanks = g.op("Add", g.op("Mul", labels, 0), blank)
    pairs = g.op("Concat", *(emit.unsqueeze(g, part, [2]) for part in (blanks, labels)), axis=2)
    flat = g.op("Reshape", pairs, [0, -1])
    return g.op("Concat", flat, emit.slice_(g, flat, [0], [1], [1]), axis=1)


def _losses(g: Builder, alignment: Alignment, zero_infinity: bool) -> Value:
    """The negative log probability of all paths with these labels."""
    probs = alignment.log_probs
    dtype = probs.dtype
    time, batch, _ = probs.shape or ()
    spaced = alignment.labels
    shape = None if spaced.shape is None else (batch, spaced.shape[1])
    labels = g.op("Expand", emit.unsqueeze(g, spaced, [0]), sizes.vector(g, [time, batch, 1]))
    chances = g.op("GatherElements", probs, labels, axis=2)
    g.typed(chances, dtype, None if shape is None else (time, *shape))
    start = g.op("Concat", emit.filled(g, [batch, 1], 0.0, dtype), _impossible(g, spaced, dtype), axis=1)
    g.typed(start, dtype, shape)
    skips = _skips(g, spaced, dtype)
    positions = [emit.counting(g, time)] if alignment.holds else []

    def step(inner: Builder, states: list[Value], slices: list[Value]) -> list[Value]:
        new = inner.op("Add", _joined(inner, states[0], skips), slices[0])
        if alignment.holds:
            goes_on = inner.op("Less", slices[1], alignment.input_lengths)
            new = inner.op("Where", emit.unsqueeze(inner, goes_on, [1]), new, states[0])
        return [new]

    paths = scan(g, [start], [chances, *positions], [0] * (1 + len(positions)), step, last=True)[0]
    return _ended_paths(g, paths, alignment, zero_infinity)


def _impossible(g: Builder, spaced: Value, dtype: torch.dtype) -> Value:
    rest = g.cast(emit.slice_(g, spaced, [1], [emit.INT64_MAX], [1]), dtype)
    return g.op("Add", g.op("Mul", rest, 0.0), -math.inf)


def _skips(g: Builder, spaced: Value, dtype: torch.dtype) -> Value:
    """0 where a path may come from two positions before, skipping a blank, else -inf."""
    later, earlier = emit.slice_(g, spaced, [2], [emit.INT64_MAX], [1]), emit.slice_(g, spaced, [0], [-2], [1])
    same = g.op("Equal", later, earlier)
    allowed = g.op("Where", same, g.constant(-math.inf, dtype), g.constant(0.0, dtype))
    return g.op("Pad", allowed, [0, 2, 0, 0], g.constant(-math.inf, dtype))


def _joined(g: Builder, paths: Value, skips: Value) -> Value:
    """The log of the summed probabilities of staying, of coming from one position before, and from two before."""
    never = g.constant(-math.inf, paths.dtype)
    before = [g.op("Slice", g.op("Pad", paths, [0, by, 0, 0], never), [0], [-by], [1]) for by in (1, 2)]
    ways = [paths, before[0], g.op("Add", before[1], skips)]
    high = g.op("Max", *ways)
    base = g.op("Where", g.op("Equal", high, -math.inf), g.constant(0.0, paths.dtype), high)
    total = g.op("Sum", *(g.op("Exp", g.op("Sub", way, base)) for way in ways))
    return g.op("Add", g.op("Log", total), base)


def _ended_paths(g: Builder, paths: Value, alignment: Alignment, zero_infinity: bool) -> Value:
    """Paths end in the last label or in the blank after it."""
    last = emit.unsqueeze(g, g.op("Mul", alignment.target_lengths, 2), [1])
    before = g.op("Max", g.op("Sub", last, 1), 0)
    ends = [g.op("GatherElements", paths, end, axis=1) for end in (last, before)]
    # Without labels there is only one end.
    empty = g.op("Equal", last, 0)
    ends[1] = g.op("Where", empty, g.constant(-math.inf, paths.dtype), ends[1])
    high = g.op("Max", *ends)
    base = g.op("Where", g.op("Equal", high, -math.inf), g.constant(0.0, paths.dtype), high)
    total = g.op("Sum", *(g.op("Exp", g.op("Sub", end, base)) for end in ends))
    losses = g.op("Neg", g.op("Add", g.op("Log", total), base))
    if zero_infinity:
        losses = g.op("Where", g.op("Equal", losses, math.inf), g.constant(0.0, paths.dtype), losses)
    return emit.squeeze(g, g.typed(losses, paths.dtype, ((alignment.log_probs.shape or ())[1], 1)), [1])
