"""Losses of torch.nn."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Value
from onnxport.ops.elementwise.activation import available, log_of_one_plus_exp, widened
from onnxport.ops.reduction.reduction import reduce

NONE, MEAN, SUM = 0, 1, 2
REDUCTIONS = ("none", "mean", "sum")
IGNORED = -100


def reduced(g: Builder, loss: Value, reduction: int) -> Value:
    if reduction == NONE or loss.rank == 0:
        return loss
    return reduce(g, "ReduceMean" if reduction == MEAN else "ReduceSum", loss, None, keepdim=False)


def operands(g: Builder, *values: Value) -> list[Value]:
    """The values in their common dtype, float32 for 16-bit floats."""
    return [widened(g, value) for value in g.promoted(*values)]


def _pointwise(formula: Callable[[Builder, Value, Value], Value]) -> Converter:
    def convert(g: Builder, self: Value, target: Value, reduction: int = MEAN) -> Value:
        return reduced(g, formula(g, *operands(g, self, target)), reduction)

    return convert


def _squared_error(g: Builder, x: Value, target: Value) -> Value:
    difference = g.op("Sub", x, target)
    return g.op("Mul", difference, difference)


def _absolute_error(g: Builder, x: Value, target: Value) -> Value:
    return g.op("Abs", g.op("Sub", x, target))


def _soft_margin(g: Builder, x: Value, target: Value) -> Value:
    return log_of_one_plus_exp(g, g.op("Neg", g.op("Mul", x, target)))


POINTWISE = entries(
    _pointwise,
    {"aten::mse_loss": _squared_error, "aten::l1_loss": _absolute_error, "aten::soft_margin_loss": _soft_margin},
)


@converter("aten::huber_loss")
def huber_loss(g: Builder, self: Value, target: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    """aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor"""
    error = _absolute_error(g, *operands(g, self, target))
    return reduced(g, _huber(g, error, delta), reduction)


@converter("aten::smooth_l1_loss")
def smooth_l1_loss(g: Builder, self: Value, target: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    """aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor"""
    error = _absolute_error(g, *operands(g, self, target))
    if beta == 0:
        return reduced(g, error, reduction)
    loss = _huber(g, error, beta)
    return reduced(g, loss if beta == 1 else g.op("Div", loss, beta), reduction)


def _huber(g: Builder, error: Value, delta: float) -> Value:
    """Half the square up to delta, linear above: m * (e - m / 2) with m = min(e, delta)."""
    inner = emit.clip(g, error, None, delta)
    return g.op("Mul", inner, g.op("Sub", error, g.op("Mul", inner, 0.5)))


@converter("aten::binary_cross_entropy")
def binary_cross_entropy(
    g: Builder, self: Value, target: Value, weight: Value | None = None, reduction: int = MEAN
) -> Value:
    """aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor"""
    x, expected = operands(g, self, target)
    yes = emit.clip(g, g.op("Log", x), -100.0, None)
    no = emit.clip(g, g.op("Log", g.op("Sub", 1.0, x)), -100.0, None)
    loss = g.op("Sub", g.op("Mul", g.op("Sub", expected, 1.0), no), g.op("Mul", expected, yes))
    return reduced(g, _weighted(g, loss, weight), reduction)


@converter("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    g: Builder,
    self: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    """aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor"""  # noqa: E501
    x, expected = operands(g, self, target)
    tail = log_of_one_plus_exp(g, g.op("Neg", x))
    if pos_weight is not None:
        factor = g.op("Mul", g.op("Sub", g.cast(pos_weight, x.dtype), 1.0), expected)
        tail = g.op("Mul", tail, g.op("Add", factor, 1.0))
    loss = g.op("Add", g.op("Mul", g.op("Sub", 1.0, expected), x), tail)
    return reduced(g, _weighted(g, loss, weight), reduction)


@converter("aten::kl_div")
def kl_div(g: Builder, self: Value, target: Value, reduction: int = MEAN, log_target: bool = False) -> Value:
    """aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor"""
    x, expected = operands(g, self, target)
    if log_target:
        return reduced(g, g.op("Mul", g.op("Exp", expected), g.op("Sub", expected, x)), reduction)
    return reduced(g, g.op("Sub", _times_own_log(g, expected), g.op("Mul", expected, x)), reduction)


def _times_own_log(g: Builder, x: Value) -> Value:
    """x * log(x), 0 at 0."""
    positive = g.cast(x, torch.bool)
    if g.opset >= 9:
        return g.op("Where", positive, g.op("Mul", x, g.op("Log", x)), x)
    return g.op("Mul", x, g.op("Log", g.op("Add", x, g.cast(g.op("Not", positive), x.dtype))))


@converter("aten::poisson_nll_loss")
def poisson_nll_loss(
    g: Builder, input: Value, target: Value, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    """aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor"""  # noqa: E501
    x, count = operands(g, *g.promoted(input, target, dtype=float_type(input, target)))
    if log_input:
        loss = g.op("Sub", g.op("Exp", x), g.op("Mul", count, x))
    else:
        loss = g.op("Sub", x, g.op("Mul", count, g.op("Log", g.op("Add", x, eps))))
    if full:
        half_log = g.op("Mul", g.op("Log", g.op("Mul", count, 2 * math.pi)), 0.5)
        stirling = g.op("Add", g.op("Sub", g.op("Mul", count, g.op("Log", count)), count), half_log)
        loss = g.op("Add", loss, g.op("Where", g.op("Greater", count, 1.0), stirling, g.constant(0.0, x.dtype)))
    return reduced(g, loss, reduction)


@converter("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def nll_loss(
    g: Builder,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = IGNORED,
) -> Value:
    """aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor"""  # noqa: E501
    return _class_loss(g, "NegativeLogLikelihoodLoss", self, target, weight, reduction, ignore_index)


@converter("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(
    g: Builder, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    """aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"""  # noqa: E501
    loss = nll_loss(g, self, target, weight, reduction, ignore_index)
    if reduction == NONE and self.rank > 1:
        return loss, g.constant(0.0, self.dtype)
    x, index = widened(g, batched(g, self, 2)), batched(g, target, 1)
    return loss, reduced(g, _class_weights(g, x, _counted(g, x, index, ignore_index), weight), SUM)


@converter("aten::cross_entropy_loss")
def cross_entropy_loss(
    g: Builder,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
) -> Value:
    """aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor"""  # noqa: E501
    if not target.is_float and label_smoothing == 0:
        return _class_loss(g, "SoftmaxCrossEntropyLoss", self, target, weight, reduction, ignore_index)
    axis = 0 if self.rank == 1 else 1
    x = emit.softmax(g, widened(g, self), axis, "LogSoftmax")
    if not target.is_float:
        return _indexed(g, x, target, weight, reduction, ignore_index, label_smoothing)
    expected = g.cast(target, x.dtype)
    if label_smoothing:
        expected = g.op("Mul", expected, 1 - label_smoothing)
        expected = g.op("Add", expected, _share(g, x, axis, label_smoothing))
    terms = g.op("Mul", _weighted(g, x, weight, x.rank - 1 - axis), expected)
    return reduced(g, g.op("Neg", emit.reduce(g, "ReduceSum", terms, [axis], keepdims=False)), reduction)


def _class_loss(
    g: Builder, op: str, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> Value:
    """One of ONNX's losses for class indices, from opset 12 on."""
    if not available(g, op, self.dtype):
        x = widened(g, self)
        if op == "SoftmaxCrossEntropyLoss":
            x = emit.softmax(g, x, min(self.rank - 1, 1), "LogSoftmax")
        return _indexed(g, x, target, weight, reduction, ignore_index, 0.0)
    x, index = widened(g, batched(g, self, 2)), g.cast(batched(g, target, 1), torch.int64)
    factors = None if weight is None else g.cast(weight, x.dtype)
    loss = g.op(op, x, index, factors, ignore_index=ignore_index, reduction=REDUCTIONS[reduction])
    loss = g.typed(loss, loss.dtype, index.shape if reduction == NONE else ())
    return emit.squeeze(g, loss, [0]) if reduction == NONE and self.rank == 1 else loss


def _indexed(
    g: Builder,
    logarithms: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    smoothing: float,
) -> Value:
    """The weighted loss for class indices; label smoothing spreads a part of the target over all classes."""
    x, index = batched(g, logarithms, 2), batched(g, target, 1)
    counted = _counted(g, x, index, ignore_index)
    terms = _weighted(g, x, weight, x.rank - 2)
    zero = g.constant(0.0, x.dtype)
    picked = emit.reduce(g, "ReduceSum", g.op("Where", counted, terms, zero), [1], keepdims=False)
    if smoothing:
        spread = emit.reduce(g, "ReduceSum", terms, [1], keepdims=False)
        spread = g.op("Where", emit.equal(g, index, ignore_index), zero, spread)
        part = g.op("Mul", spread, _share(g, x, 1, smoothing))
        picked = g.op("Add", g.op("Mul", picked, 1 - smoothing), part)
    loss = g.op("Neg", picked)
    if reduction == MEAN:
        total = reduced(g, _class_weights(g, x, counted, weight), SUM)
        return g.op("Div", reduced(g, loss, SUM), total)
    return emit.squeeze(g, loss, [0]) if reduction == NONE and target.rank == 0 else reduced(g, loss, reduction)


def _counted(g: Builder, x: Value, index: Value, ignore_index: int) -> Value:
    """Per sample and class: whether it is the sample's class and not ignored."""
    own = is_class(g, x, index)
    if ignore_index < 0:
        return own
    return g.op("And", own, g.op("Not", emit.unsqueeze(g, emit.equal(g, index, ignore_index), [1])))


def _class_weights(g: Builder, x: Value, counted: Value, weight: Value | None) -> Value:
    return _weighted(g, g.cast(counted, x.dtype), weight, x.rank - 2)


def is_class(g: Builder, x: Value, index: Value) -> Value:
    """Per sample and class: whether it is the sample's class."""
    return g.op("Equal", emit.unsqueeze(g, g.cast(index, torch.int64), [1]), classes(g, x, x.rank - 2))


def classes(g: Builder, x: Value, trailing: int) -> Value:
    """The class indices along the second axis of the scores."""
    return emit.unsqueeze(g, emit.counting(g, _size(x, 1)), range(1, 1 + trailing))


def _share(g: Builder, x: Value, axis: int, smoothing: float) -> Value:
    count = _size(x, axis)
    if isinstance(count, int):
        return g.constant(smoothing / count, x.dtype)
    return g.op("Div", g.constant(smoothing, x.dtype), g.cast(sizes.scalar(g, count), x.dtype))


def _weighted(g: Builder, x: Value, weight: Value | None, trailing: int = 0) -> Value:
    """Multiplied by weights for an axis with ``trailing`` axes after it."""
    if weight is None:
        return x
    return g.op("Mul", x, emit.unsqueeze(g, g.cast(weight, x.dtype), range(1, 1 + trailing)))


def batched(g: Builder, x: Value, rank: int) -> Value:
    """With an axis for the classes, and one for the samples if there is only one sample."""
    return emit.unsqueeze(g, x, range(rank - x.rank))


def _size(x: Value, axis: int) -> Size:
    assert x.shape is not None
    return x.shape[axis]
