"""Losses of torch.nn with a margin."""

from __future__ import annotations

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import float_type
from onnxport.lower.registry import converter
from onnxport.lower.value import Value
from onnxport.ops.elementwise.activation import widened
from onnxport.ops.linalg.matmul import times
from onnxport.ops.nn.loss import MEAN, batched, classes, is_class, operands, reduced
from onnxport.ops.reduction.norms import pairwise_distance


def as_float(g: Builder, x: Value) -> Value:
    return g.cast(x, float_type(x))


@converter("aten::margin_ranking_loss")
def margin_ranking_loss(
    g: Builder, input1: Value, input2: Value, target: Value, margin: float = 0.0, reduction: int = MEAN
) -> Value:
    """aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor"""  # noqa: E501
    first, second, sign = operands(g, input1, input2, target)
    gap = as_float(g, g.op("Mul", sign, g.op("Sub", second, first)))
    return reduced(g, g.op("Relu", gap if margin == 0 else g.op("Add", gap, margin)), reduction)


@converter("aten::hinge_embedding_loss")
def hinge_embedding_loss(g: Builder, self: Value, target: Value, margin: float = 1.0, reduction: int = MEAN) -> Value:
    """aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor"""
    x = widened(g, self)
    zero = g.constant(0.0, x.dtype)
    dissimilar = g.op("Where", _is(g, target, 1), zero, g.op("Relu", g.op("Sub", margin, x)))
    similar = g.op("Where", _is(g, target, -1), zero, x)
    return reduced(g, g.op("Add", dissimilar, similar), reduction)


@converter("aten::cosine_embedding_loss")
def cosine_embedding_loss(
    g: Builder, input1: Value, input2: Value, target: Value, margin: float = 0.0, reduction: int = MEAN
) -> Value:
    """aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor"""  # noqa: E501
    first, second = operands(g, input1, input2)
    axis = [0 if target.rank == 0 else 1]
    products = (times(g, *pair) for pair in ((first, second), (first, first), (second, second)))
    numbers = (product if product.is_float else g.cast(product, torch.int64) for product in products)
    dot, *squares = (as_float(g, emit.reduce(g, "ReduceSum", number, axis, keepdims=False)) for number in numbers)
    lengths = g.op("Mul", *(g.op("Add", square, 1e-12) for square in squares))
    cosine = g.op("Div", dot, g.op("Sqrt", lengths))
    zero = g.constant(0.0, cosine.dtype)
    similar = g.op("Where", _is(g, target, 1), g.op("Sub", 1.0, cosine), zero)
    dissimilar = g.op("Where", _is(g, target, -1), g.op("Relu", g.op("Sub", cosine, margin)), zero)
    return reduced(g, g.op("Add", similar, dissimilar), reduction)


def _is(g: Builder, target: Value, sign: int) -> Value:
    """Whether a target equals this sign, which unsigned types do not have."""
    return emit.equal(g, target if target.is_float else g.cast(target, torch.int64), sign)


@converter("aten::triplet_margin_loss")
def triplet_margin_loss(
    g: Builder,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = MEAN,
) -> Value:
    """aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=1e-06, bool swap=False, int reduction=1) -> Tensor"""  # noqa: E501
    centre, similar, far = operands(g, anchor, positive, negative)
    distance = pairwise_distance(g, centre, far, p, eps)
    if swap:
        distance = g.op("Min", distance, pairwise_distance(g, similar, far, p, eps))
    gap = g.op("Sub", pairwise_distance(g, centre, similar, p, eps), distance)
    return reduced(g, g.op("Relu", g.op("Add", gap, margin)), reduction)


@converter("aten::multi_margin_loss")
def multi_margin_loss(
    g: Builder,
    self: Value,
    target: Value,
    p: float = 1,
    margin: float = 1,
    weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    """aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor"""  # noqa: E501
    x = widened(g, batched(g, self, 2))
    index = batched(g, target, 1)
    own = is_class(g, x, index)
    zero = g.constant(0.0, x.dtype)
    score = emit.reduce(g, "ReduceSum", g.op("Where", own, x, zero), [1], keepdims=True)
    gap = g.op("Relu", g.op("Add", g.op("Sub", x, score), float(margin)))
    gap = g.op("Mul", gap, gap) if p == 2 else gap
    loss = emit.reduce(g, "ReduceMean", g.op("Where", own, zero, gap), [1], keepdims=False)
    if weight is not None:
        loss = g.op("Mul", loss, g.op("Gather", g.cast(weight, x.dtype), index))
    return reduced(g, emit.squeeze(g, loss, [0]) if target.rank == 0 else loss, reduction)


@converter("aten::multilabel_margin_loss")
def multilabel_margin_loss(g: Builder, self: Value, target: Value, reduction: int = MEAN) -> Value:
    """aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    return multilabel_margin_loss_forward(g, self, target, reduction)[0]


@converter("aten::multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(g: Builder, self: Value, target: Value, reduction: int) -> tuple[Value, Value]:
    """aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)"""  # noqa: E501
    x = widened(g, batched(g, self, 2))
    labels = batched(g, target, 2)
    # The labels of a sample end at the first negative one.
    ended = emit.cumsum(g, g.cast(g.op("Less", labels, 0), torch.int32), 1)
    listed = emit.unsqueeze(g, g.op("Not", g.cast(g.typed(ended, torch.int32, labels.shape), torch.bool)), [2])
    matches = g.op("And", g.op("Equal", emit.unsqueeze(g, labels, [2]), classes(g, x, 0)), listed)
    is_target = emit.reduce(g, "ReduceMax", g.cast(matches, x.dtype), [1], keepdims=True)
    scores, zero = emit.unsqueeze(g, x, [1]), g.constant(0.0, x.dtype)
    own = emit.reduce(g, "ReduceSum", g.op("Where", matches, scores, zero), [2], keepdims=True)
    gap = g.op("Relu", g.op("Add", g.op("Sub", scores, own), 1.0))
    counted = g.op("And", listed, g.op("Not", g.cast(is_target, torch.bool)))
    totals = emit.reduce(g, "ReduceSum", g.op("Where", counted, gap, zero), [1], keepdims=False)
    loss = emit.reduce(g, "ReduceMean", totals, [1], keepdims=False)
    loss = emit.squeeze(g, loss, [0]) if self.rank < 2 else loss
    return reduced(g, loss, reduction), emit.reshape(g, is_target, self.shape or ())
