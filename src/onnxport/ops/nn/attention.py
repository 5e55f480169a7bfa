"""Attention."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from onnxport.graph.sizes import Shape, is_static
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value

LOWEST = float("-inf")
FIRST_ATTENTION = 23
FIRST_TRILU = 14
FIRST_WHERE = 9


@dataclass(frozen=True)
class Heads:
    """What attention is computed from: [..., heads, sequence, width] each, and a mask that broadcasts to the scores."""

    query: Value
    key: Value
    value: Value
    mask: Value | None
    causal: bool
    scale: float | None

    @property
    def has_boolean_mask(self) -> bool:
        return self.mask is not None and self.mask.dtype == torch.bool


@dataclass(frozen=True)
class Attended:
    result: Value
    weights: Value
    scores: Value


@converter("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    g: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""  # noqa: E501
    heads = Heads(query, key, value, attn_mask, is_causal, scale)
    if dropout_p == 0 and _is_native(g, heads, enable_gqa):
        causal = 1 if is_causal else None
        result = g.op("Attention", query, key, value, attn_mask, is_causal=causal, scale=scale)
        return g.typed(result, query.dtype, g.outputs[0].shape)
    return emit.reshape(g, _attend(g, heads, dropout_p, enable_gqa).result, g.outputs[0].shape)


@converter("aten::_scaled_dot_product_attention_math")
def attention_math(
    g: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Value | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value]:
    """aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)"""  # noqa: E501
    if dropout_mask is not None:
        g.unsupported("attention with a dropout mask of its own")
    mask = None if attn_mask is None else g.cast(attn_mask, query.dtype)
    found = _attend(g, Heads(query, key, value, mask, is_causal, scale), dropout_p, enable_gqa)
    outputs = [emit.reshape(g, x, o.shape) for x, o in zip((found.result, found.weights), g.outputs, strict=True)]
    return outputs[0], outputs[1]


@converter("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(
    g: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"""  # noqa: E501
    found = _attend(g, Heads(query, key, value, attn_mask, is_causal, scale), 0.0, gqa=False)
    return found.result, emit.reduce(g, "ReduceLogSumExp", found.scores, [3], keepdims=False)


def _is_native(g: Builder, heads: Heads, gqa: bool) -> bool:
    """Whether ONNX's Attention says it, and as well as its parts do.

    In ONNX Runtime 1.31 it is 2 to 22 % faster in float32, less exact in float16 and absent in float64, and takes masks
    that broadcast over batch and heads alone.
    """
    if g.opset < FIRST_ATTENTION or heads.query.dtype != torch.float32 or heads.query.rank != 4:
        return False
    query, key, value = _dims(heads.query), _dims(heads.key), _dims(heads.value)
    if query[0] != key[0] or key[:-1] != value[:-1] or (query[1] != key[1] and not gqa):
        return False
    mask = heads.mask
    return mask is None or (mask.rank <= 4 and _dims(mask)[-2:] == (query[2], key[2]))


def _attend(g: Builder, heads: Heads, dropout: float, gqa: bool) -> Attended:
    """Attention from products and a softmax. A row of which the mask leaves nothing is 0, as in torch."""
    if heads.query.dtype == torch.bfloat16:
        heads = _in_float32(g, heads)
    scores = _product(g, _scaled(g, heads), _transposed(g, heads.key), gqa)
    if heads.causal:
        scores = _causal(g, scores)
    blocked = None
    if heads.mask is not None:
        mask = _added(g, heads.mask, scores.dtype)
        scores = g.op("Add", scores, mask)
        blocked = _blocked_rows(g, mask) if _may_block_rows(heads.mask) else None
    weights = emit.softmax(g, scores, -1)
    if dropout:
        weights = emit.dropout(g, weights, dropout)[0]
    result = _product(g, weights, heads.value, gqa)
    if blocked is None:
        return Attended(result, weights, scores)
    result, weights = (emit.where(g, blocked, 0.0, x, x.dtype) for x in (result, weights))
    return Attended(result, weights, scores)


def _in_float32(g: Builder, heads: Heads) -> Heads:
    query, key, value = (g.cast(x, torch.float32) for x in (heads.query, heads.key, heads.value))
    mask = heads.mask if heads.mask is None or heads.has_boolean_mask else g.cast(heads.mask, torch.float32)
    return replace(heads, query=query, key=key, value=value, mask=mask)


def _product(g: Builder, rows: Value, columns: Value, gqa: bool) -> Value:
    """The product for each head. Heads that share one of key or value are further rows of one product.

    Key and value may have other numbers of heads. A dimension more, which the product broadcasts over, took up to 2.3
    times as long in ONNX Runtime.
    """
    if not gqa or rows.rank < 3 or _dims(rows)[-3] == _dims(columns)[-3]:
        return g.op("MatMul", rows, columns)
    *batch, count, length, width = _dims(rows)
    groups = _dims(columns)[-3]
    together = emit.reshape(g, rows, (*batch, groups, count // groups * length, width))
    product = g.op("MatMul", together, columns)
    *batch, _, _, width = _dims(product)
    return emit.reshape(g, product, (*batch, count, length, width))


def _scaled(g: Builder, heads: Heads) -> Value:
    width = _dims(heads.query)[-1]
    if heads.scale is not None:
        factor = heads.scale
    elif isinstance(width, int):
        factor = 1.0 / math.sqrt(width) if width else 1.0
    else:
        root = g.op("Sqrt", g.cast(sizes.scalar(g, width), heads.query.dtype))
        return g.op("Div", heads.query, root)
    return heads.query if factor == 1 else g.op("Mul", heads.query, factor)


def _transposed(g: Builder, key: Value) -> Value:
    rank = key.rank
    return emit.transpose(g, key, [*range(rank - 2), rank - 1, rank - 2])


def _added(g: Builder, mask: Value, dtype: torch.dtype) -> Value:
    """A mask as what is added to the scores: a boolean one is -inf where it is false, as torch has it.

    It is written once for all layers that share a mask. In ONNX Runtime Add passes over the scores once, Where thrice.
    """
    if mask.dtype != torch.bool:
        return g.cast(mask, dtype)
    g.require(FIRST_WHERE, "a boolean attention mask")
    return emit.where(g, mask, 0.0, LOWEST, dtype)


def _blocked_rows(g: Builder, mask: Value) -> Value:
    """The rows of a mask that leave nothing: -inf throughout."""
    g.require(FIRST_WHERE, "an attention mask that is computed")
    return emit.equal(g, emit.reduce(g, "ReduceMax", mask, [mask.rank - 1], keepdims=True), LOWEST)


def _may_block_rows(mask: Value) -> bool:
    """Whether the mask may leave nothing of a row; one that is known now tells."""
    if mask.data is None:
        return True
    blocked = ~mask.data if mask.dtype == torch.bool else mask.data == LOWEST
    return bool(blocked.all(-1).any())


def _causal(g: Builder, scores: Value) -> Value:
    """Each position sees itself and those before it: -inf is added above the diagonal."""
    shape = _dims(scores)[-2:]
    if g.opset >= FIRST_TRILU:
        blocked = emit.filled(g, shape, LOWEST, scores.dtype)
        mask = g.op("Trilu", blocked, g.constant(1, torch.int64), upper=1)
        return g.op("Add", scores, g.typed(mask, scores.dtype, shape))
    if is_static(shape):
        blocked_now = torch.full([size for size in shape if isinstance(size, int)], LOWEST).triu(1)
        return g.op("Add", scores, g.constant(blocked_now, scores.dtype))
    queries, keys = emit.unsqueeze(g, emit.counting(g, shape[0]), [1]), emit.counting(g, shape[1])
    return emit.where(g, g.op("Less", queries, keys), LOWEST, scores, scores.dtype)


def _dims(value: Value) -> Shape:
    assert value.shape is not None
    return value.shape
