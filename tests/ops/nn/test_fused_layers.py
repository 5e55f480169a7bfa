from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.ops.harness import B, Case, F, Input, table

aten: Any = torch.ops.aten
EIGHT_BITS = [Input((17, 8), -100, 100, torch.int8), Input((8, 16), -100, 100, torch.int8)]


class Encoder(nn.Module):
    """The operator that nn.TransformerEncoderLayer calls where no gradient is asked for."""

    def __init__(self, use_gelu: bool, norm_first: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        self.options = use_gelu, norm_first, 1e-5

    def forward(self, x: Tensor, mask: Tensor | None = None, mask_type: int | None = None) -> Tensor:
        layer = self.layer
        attention, norms = layer.self_attn, (layer.norm1, layer.norm2)
        projections = (
            attention.in_proj_weight,
            attention.in_proj_bias,
            attention.out_proj.weight,
            attention.out_proj.bias,
        )
        norm = [parameter for norm in norms for parameter in (norm.weight, norm.bias)]
        feed = [layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias]
        return aten._transformer_encoder_layer_fwd(x, 8, 2, *projections, *self.options, *norm, *feed, mask, mask_type)


class Attention(nn.Module):
    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)
        self.options = options

    def forward(self, query: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        own = query if key is None else key
        weights = (
            self.inner.in_proj_weight,
            self.inner.in_proj_bias,
            self.inner.out_proj.weight,
            self.inner.out_proj.bias,
        )
        return aten._native_multi_head_attention(query, own, own, 8, 2, *weights, **self.options)


def masked(kind: int) -> Callable[..., Tensor]:
    return lambda x, mask: aten._masked_softmax(x, mask, 3, kind)


CASES = [
    Case("masked-softmax", masked(2), [F("n", 3, 4, 5), B("n", 3, 4, 5)], since=9),
    Case("masked-softmax-sequence", masked(0), [F("n", 3, 5, 5), B(5, 5)], since=9),
    Case("masked-softmax-keys", masked(1), [F("n", 3, 5, 5), B("n", 5)], since=9),
    Case("split-heads", lambda x, b: aten._transform_bias_rescale_qkv(x, b, 2), [F("n", "t", 24), F(24)]),
    Case("attention", Attention(), [F("n", "t", 8)]),
    Case("attention-of-heads", Attention(average_attn_weights=False), [F(2, 5, 8)]),
    Case("attention-across", Attention(), [F(2, 5, 8), F(2, 5, 8)]),
    Case("encoder", Encoder(False, False), [F("n", "t", 8)]),
    Case("encoder-gelu-first", Encoder(True, True), [F(2, 5, 8)], since=9),
    Case("encoder-mask", lambda x, m: ENCODER(x, m, 1), [F("n", "t", 8), B("n", "t")], since=9, dtypes=()),
    Case("add-relu", aten._add_relu, [F("n", 3), F(3)], dtypes=(torch.float64,), graph=["Add", "Relu"]),
    Case("int-mm", aten._int_mm, EIGHT_BITS, since=10, dtypes=(), graph=["MatMulInteger"]),
    # 32 columns, not 8: torch's kernel takes 16 at a time with AVX-512, and where they are no multiple of that it reads
    # beyond the end of its operands. The result is then whatever lies in memory, or the process ends.
    Case(
        "int8-weights",
        aten._weight_int8pack_mm,
        [F(3, 32), Input((6, 32), -100, 100, torch.int8), F(6)],
        base=torch.bfloat16,
        since=13,
        dtypes=(),
    ),
]

ENCODER = Encoder(False, False)

test_fused_layers = table(CASES)
