"""Whole layers as one operator: the fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer."""

from __future__ import annotations

import math

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.elementwise.activation import gelu, relu
from onnxport.ops.linalg.linear import linear
from onnxport.ops.nn.normalization import layer_norm

# The kinds of attention masks: for the sequence [query, key], or for the keys of each batch [batch, key].
OF_SEQUENCE, OF_KEYS = 0, 1


@converter("aten::_masked_softmax")
def masked_softmax(g: Builder, self: Value, mask: Value, dim: int | None = None, mask_type: int | None = None) -> Value:
    """aten::_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor

    The mask is true for keys to ignore.
    """
    axis = self.rank - 1 if dim is None else dim % self.rank
    out = emit.unsqueeze(g, mask, [1, 2]) if mask_type == OF_KEYS and mask.rank == 2 else mask
    return emit.softmax(g, emit.where(g, out, -math.inf, self, self.dtype), axis)


@converter("aten::_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(g: Builder, qkv: Value, qkv_bias: Value, num_heads: int) -> tuple[Value, Value, Value]:
    """aten::_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> (Tensor, Tensor, Tensor)"""
    parts = emit.split_evenly(g, g.op("Add", qkv, qkv_bias), 3, 2)
    query, key, value = (_heads(g, part, num_heads) for part in parts)
    return g.op("Mul", query, 1 / math.sqrt(_width(g, query))), key, value


def _heads(g: Builder, x: Value, count: int) -> Value:
    """[batch, sequence, heads * width] as [batch, heads, sequence, width]."""
    assert x.shape is not None
    batch, length, wide = x.shape
    return emit.transpose(g, emit.reshape(g, x, [batch, length, count, wide // count]), [0, 2, 1, 3])


def _width(g: Builder, heads: Value) -> int:
    width = (heads.shape or ())[-1]
    if not isinstance(width, int):
        g.unsupported("attention over heads of dynamic width")
    return width


@converter("aten::_native_multi_head_attention")
def multi_head_attention(
    g: Builder,
    query: Value,
    key: Value,
    value: Value,
    embed_dim: int,
    num_head: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Value, Value]:
    """aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)"""  # noqa: E501
    projected = _projected(g, [query, key, value], qkv_weight, qkv_bias)
    heads = [_heads(g, part, num_head) for part in projected]
    scaled = g.op("Mul", heads[0], 1 / math.sqrt(_width(g, heads[0])))
    scores = g.op("MatMul", scaled, emit.transpose(g, heads[1], [0, 1, 3, 2]))
    weights = emit.softmax(g, scores, 3) if mask is None else masked_softmax(g, scores, mask, 3, mask_type)
    joined = emit.transpose(g, g.op("MatMul", weights, heads[2]), [0, 2, 1, 3])
    result = linear(g, emit.reshape(g, joined, projected[0].shape or ()), proj_weight, proj_bias)
    if need_weights and average_attn_weights:
        weights = emit.reduce(g, "ReduceMean", weights, [1], keepdims=False)
    return result, weights


def _projected(g: Builder, inputs: list[Value], weight: Value, bias: Value) -> tuple[Value, ...]:
    """Query, key and value, by one product if they are the same tensor."""
    if inputs[0].ir is inputs[1].ir is inputs[2].ir:
        return emit.split_evenly(g, linear(g, inputs[0], weight, bias), 3, 2)
    weights, biases = emit.split_evenly(g, weight, 3, 0), emit.split_evenly(g, bias, 3, 0)
    return tuple(linear(g, *parts) for parts in zip(inputs, weights, biases, strict=True))


@converter("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    g: Builder,
    src: Value,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None = None,
    mask_type: int | None = None,
) -> Value:
    """aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor"""  # noqa: E501
    attention = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, False, mask_type)

    def attend(x: Value) -> Value:
        return multi_head_attention(g, x, x, x, *attention)[0]

    def feed(x: Value) -> Value:
        inner = linear(g, x, ffn_weight_1, ffn_bias_1)
        return linear(g, gelu(g, inner) if use_gelu else relu(g, inner), ffn_weight_2, ffn_bias_2)

    x = src
    for part, weight, bias in ((attend, norm_weight_1, norm_bias_1), (feed, norm_weight_2, norm_bias_2)):
        if norm_first:
            x = g.op("Add", x, part(layer_norm(g, x, [embed_dim], weight, bias, eps)))
        else:
            x = layer_norm(g, g.op("Add", x, part(x)), [embed_dim], weight, bias, eps)
    return x


@converter("aten::_add_relu")
def add_relu(g: Builder, self: Value, other: Operand, alpha: Operand = 1) -> Value:
    """aten::_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = g.promoted(self, other)
    if isinstance(alpha, Value) or alpha != 1:
        right = g.op("Mul", right, g.cast(alpha, right.dtype))
    return relu(g, g.op("Add", left, right))


@converter("aten::_int_mm")
def int_mm(g: Builder, self: Value, mat2: Value) -> Value:
    """aten::_int_mm(Tensor self, Tensor mat2) -> Tensor"""
    g.require(10, "products of eight-bit integers")
    return g.typed(g.op("MatMulInteger", self, mat2), torch.int32, g.outputs[0].shape)


@converter("aten::_weight_int8pack_mm")
def weight_int8_mm(g: Builder, self: Value, mat2: Value, scales: Value) -> Value:
    """aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor"""
    return g.op("Mul", g.op("MatMul", self, g.cast(emit.transpose(g, mat2, [1, 0]), self.dtype)), scales)
