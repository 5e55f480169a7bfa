"""Text networks: a recurrent word language model and a BERT-like encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class WordLanguageModel(nn.Module):
    """An LSTM over words, whose output layer is its embedding (Press and Wolf, 2016)."""

    def __init__(self, words: int = 10_000, size: int = 200, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.dropout = nn.Dropout(0.2)
        self.recurrent = nn.LSTM(size, size, layers, dropout=0.2)
        self.decoder = nn.Linear(size, words)
        self.decoder.weight = self.embedding.weight

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Words as (time, batch) and the state before them; log-probabilities of the next words and the state after."""
        hidden, state = self.recurrent(self.dropout(self.embedding(words)), state)
        return F.log_softmax(self.decoder(self.dropout(hidden)), dim=-1), state


class SelfAttention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (self._split(part(hidden)) for part in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        output: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return output

    def _split(self, hidden: Tensor) -> Tensor:
        return hidden.view(*hidden.shape[:2], self.heads, -1).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each followed by its residual norm."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(size, heads)
        self.attention_norm = nn.LayerNorm(size, eps=1e-12)
        self.feed_forward = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.output_norm = nn.LayerNorm(size, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, bias)))
        output: Tensor = self.output_norm(hidden + self.dropout(self.feed_forward(hidden)))
        return output


class Encoder(nn.Module):
    """Devlin et al., "BERT" (2018), base size: 12 layers of 768 with 12 heads."""

    def __init__(
        self, words: int = 30_522, positions: int = 512, size: int = 768, layers: int = 12, heads: int = 12
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size, padding_idx=0)
        self.positions = nn.Embedding(positions, size)
        self.norm = nn.LayerNorm(size, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(EncoderLayer(size, heads) for _ in range(layers))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Word ids and a mask that is 0 where a sequence is padded, both (batch, time); the last hidden states."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        hidden: Tensor = self.dropout(self.norm(self.words(ids) + self.positions(positions)))
        bias = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * torch.finfo(hidden.dtype).min
        for layer in self.layers:
            hidden = layer(hidden, bias)
        return hidden
