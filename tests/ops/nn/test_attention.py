"""Attention, and the modules of torch.nn that are built on it."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn
from torch.nn import functional as nnf

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import B, Case, F, X, compare, operators, table, variants_of

attend = nnf.scaled_dot_product_attention
COMPOSED = ["Mul", "Transpose", "MatMul", "Softmax", "MatMul"]
BFLOAT = (torch.float64, torch.float16, torch.bfloat16)


def blocked_rows(shape: tuple[int, ...]) -> torch.Tensor:
    """A mask that leaves nothing in its first row."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(0)) > 0.4
    mask[..., 1:, 0] = True
    mask[..., 0, :] = False
    return mask


def added(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.zeros(shape).masked_fill(~blocked_rows(shape), float("-inf"))


KNOWN = torch.ones(6, 6, dtype=torch.bool).tril()
QKV = [F("n", 2, "t", 4), F("n", 2, "s", 4), F("n", 2, "s", 5)]
GROUPED = [F("n", 6, "t", 4), F("n", 2, "s", 4), F("n", 2, "s", 5)]
MASK = X("n", 1, "t", "s", make=blocked_rows, dtype=torch.bool)
PADDING = X("n", 1, 1, "s", make=lambda shape: torch.arange(shape[3]).expand(shape) < 4, dtype=torch.bool)
HEADS_MASK = X("n", 6, "t", "s", make=blocked_rows, dtype=torch.bool)
ADDED = X("n", 1, "t", "s", make=added)

PRODUCTS = [
    Case("width", lambda x: attend(x, x, x), [F("n", 2, "t", "c")]),
    Case("plain", attend, QKV, dtypes=BFLOAT, graph=COMPOSED),
    Case("three", attend, [F("n", "t", 4), F("n", "s", 4), F("n", "s", 5)], graph=COMPOSED),
    Case("five", attend, [F("n", 2, 3, "t", 4), F("n", 2, 3, "s", 4), F("n", 2, 3, "s", 5)], graph=COMPOSED),
    Case("broadcast", attend, [F("n", 2, "t", 4), F(1, 2, "s", 4), F(1, 2, "s", 5)]),
    Case("scale", lambda q, k, v: attend(q, k, v, scale=0.3), QKV, dtypes=()),
    Case("scale_one", lambda q, k, v: attend(q, k, v, scale=1.0), QKV, dtypes=(), graph=COMPOSED[1:]),
    Case("causal", lambda q, k, v: attend(q, k, v, is_causal=True), QKV, dynamic_since=9, dtypes=BFLOAT,
         graph=["Mul", "Transpose", "MatMul", "Add", "Softmax", "MatMul"]),
    Case("causal_square", lambda x: attend(x, x, x, is_causal=True), [F("n", 2, "t", 4)], dynamic_since=9),
    Case("mask", attend, [*QKV, MASK], since=9, dtypes=BFLOAT,
         graph=["Mul", "Transpose", "MatMul", "Where", "Add", "ReduceMax", "Equal", "Softmax", "MatMul", "Where"]),
    Case("mask_padding", attend, [*QKV, PADDING], since=9),
    Case("mask_random", attend, [*QKV, B("t", "s")], since=9),
    Case("mask_known", lambda x: attend(x, x, x, KNOWN), [F("n", 2, 6, 4)], since=9,
         graph=["Mul", "Transpose", "MatMul", "Add", "Softmax", "MatMul"]),
    Case("mask_added", attend, [*QKV, ADDED], since=9, dtypes=BFLOAT),
    Case("mask_added_finite", attend, [*QKV, F("t", "s")], since=9),
    Case("mask_added_known", lambda x: attend(x, x, x, KNOWN.to(x.dtype)), [F("n", 2, 6, 4)],
         graph=["Mul", "Transpose", "MatMul", "Add", "Softmax", "MatMul"]),
    Case("grouped", lambda q, k, v: attend(q, k, v, enable_gqa=True), GROUPED),
    Case("grouped_apart", lambda q, k, v: attend(q, k, v, enable_gqa=True),
         [F("n", 12, "t", 4), F("n", 6, "s", 4), F("n", 3, "s", 5)]),
    Case("grouped_values", lambda q, k, v: attend(q, k, v, enable_gqa=True),
         [F("n", 6, "t", 4), F("n", 6, "s", 4), F("n", 3, "s", 5)]),
    Case("grouped_causal", lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True), GROUPED, dynamic_since=9),
    Case("grouped_mask", lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), [*GROUPED, MASK], since=9),
    Case("grouped_heads_mask", lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), [*GROUPED, HEADS_MASK], since=9),
    Case("dropout", lambda q, k, v: attend(q, k, v, dropout_p=0.3), QKV, dtypes=(), content=False),
    Case("math", torch.ops.aten._scaled_dot_product_attention_math, [*QKV, ADDED],
         since=9),
    Case("flash", lambda x: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.0, True),
         [F("n", 2, "t", 4)], dynamic_since=9, dtypes=()),
]  # fmt: skip


class Call(nn.Module):
    """A module called with keyword settings, the mask among its inputs where it has one."""

    def __init__(self, inner: nn.Module, mask: str | None = None, **settings: object) -> None:
        super().__init__()
        self.inner, self.mask, self.settings = inner, mask, settings
        torch.manual_seed(0)
        for parameter in inner.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
        self.eval()

    def forward(self, *inputs: torch.Tensor) -> object:
        settings = dict(self.settings)
        if self.mask is not None:
            *inputs, settings[self.mask] = inputs
        return self.inner(*inputs, **settings)


class Self(Call):
    """Self-attention: the one input is query, key and value."""

    def forward(self, x: torch.Tensor, *rest: torch.Tensor) -> object:
        return super().forward(x, x, x, *rest)


def heads(**options: object) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(8, 2, **options)


MODULE_DTYPES = (torch.float64, torch.float16)


def one_dtype(case: Case) -> Case:
    """The parts of these modules have dtype tests of their own: other dtypes only where a row names them."""
    return case if case.dtypes == MODULE_DTYPES else variants_of(case, dtypes=())


PADDED = X("n", "t", make=lambda shape: torch.arange(shape[1]).expand(shape) > 1, dtype=torch.bool)
SQUARE = X("t", "t", make=lambda shape: ~torch.ones(shape, dtype=torch.bool).tril(), dtype=torch.bool)
X3 = F("n", "t", 8, low=-1, high=1)

MULTI_HEAD = [
    Case("mha", Self(heads()), [F("t", "n", 8)], dtypes=MODULE_DTYPES),
    Case("mha_no_weights", Self(heads(batch_first=True), need_weights=False), [X3]),
    Case("mha_each_weights", Self(heads(batch_first=True), average_attn_weights=False), [X3]),
    Case("mha_cross", Call(heads(batch_first=True)), [X3, F("n", "s", 8), F("n", "s", 8)]),
    Case("mha_widths", Call(heads(batch_first=True, kdim=5, vdim=3)), [X3, F("n", "s", 5), F("n", "s", 3)]),
    Case("mha_padding", Self(heads(batch_first=True), "key_padding_mask"), [X3, PADDED], since=9),
    Case("mha_padding_no_weights", Self(heads(batch_first=True), "key_padding_mask", need_weights=False), [X3, PADDED],
         since=9),
    Case("mha_mask", Self(heads(batch_first=True), "attn_mask"), [X3, SQUARE], since=9),
    Case("mha_mask_no_weights", Self(heads(batch_first=True), "attn_mask", need_weights=False), [X3, SQUARE], since=9),
    Case("mha_mask_added", Self(heads(batch_first=True), "attn_mask", need_weights=False), [X3, F("t", "t")], since=9),
    Case("mha_bias_kv", Self(heads(batch_first=True, add_bias_kv=True)), [X3]),
    Case("mha_zero", Self(heads(batch_first=True, add_zero_attn=True)), [X3]),
    Case("mha_zero_no_weights", Self(heads(batch_first=True, add_zero_attn=True), need_weights=False), [X3]),
    Case("mha_bias_kv_mask", Self(heads(batch_first=True, add_bias_kv=True), "key_padding_mask", need_weights=False),
         [X3, PADDED], since=9),
    Case("mha_no_bias", Self(heads(batch_first=True, bias=False)), [X3]),
    Case("mha_unbatched", Self(heads()), [F("t", 8)]),
]  # fmt: skip


def layer(kind: type[nn.Module], **options: object) -> nn.Module:
    return kind(8, 2, dim_feedforward=12, dropout=0.1, **options)


def encoder() -> nn.Module:
    """Without nested tensors, which are 0 at padded places where torch's other ways compute something."""
    return nn.TransformerEncoder(layer(Encoder, batch_first=True), 2, enable_nested_tensor=False)


class Causal(Call):
    """A transformer that makes the causal mask of its targets by itself."""

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> object:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[0])
        return self.inner(source, target, tgt_mask=mask)


Encoder, Decoder = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
MEMORY = F("n", "s", 8, low=-1, high=1)

TRANSFORMERS = [
    Case("encoder_layer", Call(layer(Encoder, batch_first=True)), [X3], dtypes=MODULE_DTYPES),
    Case("encoder_layer_first", Call(layer(Encoder)), [F("t", "n", 8)]),
    Case("encoder_layer_norm_first", Call(layer(Encoder, norm_first=True, batch_first=True, activation="gelu")), [X3],
         since=9),
    Case("encoder_layer_mask", Call(layer(Encoder, batch_first=True), "src_mask"), [X3, SQUARE], since=9),
    Case("encoder_padding", Call(encoder(), "src_key_padding_mask"), [X3, PADDED], since=9),
    Case("encoder_norm", Call(nn.TransformerEncoder(layer(Encoder, batch_first=True), 2, nn.LayerNorm(8))), [X3]),
    Case("decoder_layer", Call(layer(Decoder, batch_first=True)), [X3, MEMORY]),
    Case("decoder_layer_mask", Call(layer(Decoder, batch_first=True, norm_first=True), "tgt_mask"),
         [X3, MEMORY, SQUARE], since=9),
    Case("decoder", Call(nn.TransformerDecoder(layer(Decoder, batch_first=True), 2), "memory_key_padding_mask"),
         [F("n", "s", 8), F("n", "t", 8), PADDED], since=9),
    Case("transformer", Call(nn.Transformer(8, 2, 1, 1, 12, batch_first=True)), [MEMORY, X3]),
    Case("transformer_mask", Call(nn.Transformer(8, 2, 2, 2, 12), "tgt_mask", tgt_is_causal=False),
         [F("s", "n", 8), F("t", "n", 8), SQUARE], since=9),
    Case("transformer_causal", Causal(nn.Transformer(8, 2, 1, 1, 12)), [F("s", "n", 8), F("t", "n", 8)],
         dynamic_since=9),
]  # fmt: skip

test_products = table(PRODUCTS)
test_multi_head = table([one_dtype(case) for case in MULTI_HEAD])
test_transformers = table([one_dtype(case) for case in TRANSFORMERS])


def export(call: object, inputs: tuple[torch.Tensor, ...], opset: int) -> bytes:
    target = io.BytesIO()
    names = [f"x{i}" for i in range(len(inputs))]
    onnxport.export(call, inputs, target, input_names=names, opset_version=opset)
    return target.getvalue()


@pytest.mark.parametrize("opset", [23, 26])
@pytest.mark.parametrize("mask", [None, (6, 9), (2, 1, 6, 9), (6, 6, 9), "causal"])
@pytest.mark.parametrize("groups", [6, 2])
def test_attention_is_one_node_from_opset_23(opset: int, mask: object, groups: int) -> None:
    inputs = [torch.randn(2, 6, 6, 4), torch.randn(2, groups, 9, 4), torch.randn(2, groups, 9, 5)]
    if isinstance(mask, tuple):
        inputs.append(blocked_rows(mask))

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, given: torch.Tensor | None = None) -> torch.Tensor:
        return attend(q, k, v, given, is_causal=mask == "causal", enable_gqa=groups != 6)

    data = export(call, tuple(inputs), opset)
    assert operators(data) == ["Attention"]
    compare([call(*inputs)], Session(data).run({f"x{i}": x for i, x in enumerate(inputs)}), True, 1.0)


@pytest.mark.parametrize("opset", [17, 23])
def test_nan_in_the_query_stays_nan(opset: int) -> None:
    q, k, mask = torch.randn(1, 2, 6, 4), torch.randn(1, 2, 9, 4), added((6, 9))
    q[0, 0, 3, 0] = float("nan")
    data = export(lambda q, k, mask: attend(q, k, k, mask), (q.nan_to_num(), k, mask), opset)
    (actual,) = Session(data).run({"x0": q, "x1": k, "x2": mask})
    compare([attend(q, k, k, mask)], [actual], True, 1.0)
    assert actual[0, 0, 3].isnan().all() and (actual[:, :, 0] == 0).all()
