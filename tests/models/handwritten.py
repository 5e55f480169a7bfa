"""Text models as people write them by hand: complex rotary embeddings, torch's own layers, caches in lists."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.models.model import Call, Model, enliven

WIDTH, HEADS = 32, 4
TEXT = {0: "batch", 1: "sequence"}


class RootMeanSquare(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


def rotated(x: Tensor, turns: Tensor) -> Tensor:
    """Pairs of numbers turned as complex ones."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)


class ComplexBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.gate, self.down = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.first, self.second = RootMeanSquare(WIDTH), RootMeanSquare(WIDTH)

    def forward(self, x: Tensor, turns: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        h = self.first(x)
        q, k, v = (layer(h).view(batch, length, HEADS, WIDTH // HEADS) for layer in (self.q, self.k, self.v))
        q, k, v = (part.transpose(1, 2) for part in (rotated(q, turns), rotated(k, turns), v))
        scores = (q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask).float().softmax(-1).type_as(q)
        x = x + self.o((scores @ v).transpose(1, 2).contiguous().view(batch, length, -1))
        h = self.second(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class ComplexLlama(nn.Module):
    """Positions as complex numbers of length one, in a table that is cut to the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, WIDTH)
        self.blocks = nn.ModuleList(ComplexBlock() for _ in range(2))
        self.norm, self.head = RootMeanSquare(WIDTH), nn.Linear(WIDTH, 100, bias=False)
        rates = 1 / 10000 ** (torch.arange(0, WIDTH // HEADS, 2).float() / (WIDTH // HEADS))
        angles = torch.outer(torch.arange(64).float(), rates)
        self.turns = torch.polar(torch.ones_like(angles), angles)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.turns[:length], mask)
        return self.head(self.norm(x))


class Translator(nn.Module):
    """nn.Transformer with masks of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, 2, 2, 64, batch_first=True)
        self.head = nn.Linear(WIDTH, 100)

    def forward(self, source: Tensor, target: Tensor, padding: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        result = self.transformer(
            self.embedding(source), self.embedding(target), tgt_mask=causal, src_key_padding_mask=padding,
            memory_key_padding_mask=padding, tgt_is_causal=True,
        )  # fmt: skip
        return self.head(result)


class ListCache(nn.Module):
    """A decoder that takes and returns its keys and values as a list of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))

    def forward(self, ids: Tensor, past: list[tuple[Tensor, Tensor]]) -> Any:
        x, present = self.embedding(ids), []
        for layer, (keys, values) in zip(self.layers, past, strict=True):
            q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in layer(x).chunk(3, -1))
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            present.append((k, v))
            x = x + nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x, present


def complex_llama() -> Call:
    return Call(enliven(ComplexLlama()), (torch.randint(0, 100, (2, 7)),), axes={"ids": TEXT})


def encoder() -> Call:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True, norm_first=True)
    model = enliven(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    return Call(model, (torch.randn(2, 7, WIDTH),), axes={"src": TEXT})


def translator() -> Call:
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[0, -2:] = True
    args = (torch.randint(0, 100, (2, 7)), torch.randint(0, 100, (2, 5)), padding)
    axes = {"source": TEXT, "target": {0: "batch", 1: "target"}, "padding": TEXT}
    return Call(enliven(Translator()), args, axes=axes)


def list_cache() -> Call:
    past = [(torch.randn(2, HEADS, 5, 8), torch.randn(2, HEADS, 5, 8)) for _ in range(2)]
    axes: dict[str, dict[int, str]] = {"ids": TEXT}
    axes |= {f"past.{layer}.{part}": {0: "batch", 2: "past"} for layer in range(2) for part in range(2)}
    return Call(enliven(ListCache()), (torch.randint(0, 100, (2, 3)), past), axes=axes)


MODELS = (
    Model("llama-complex-rotary", "hand-written", complex_llama, fast=True),
    Model("nn-transformer-encoder-norm-first", "hand-written", encoder),
    Model("nn-transformer-translator", "hand-written", translator),
    Model("cache-in-lists", "hand-written", list_cache, fast=True),
)
