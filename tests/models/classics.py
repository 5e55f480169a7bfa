"""The models that everybody begins with, and those that torch itself brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from examples.models import DCGAN, PILLARS, SUPER_RESOLUTION, WORD_LANGUAGE_MODEL, Example
from tests.models.model import Axes, Call, Model, enliven


def example(given: Example) -> Callable[[], Call]:
    """One of this project's own examples."""

    def build() -> Call:
        model, inputs = given.build()
        return Call(
            model, inputs, axes=given.dynamic_axes, input_names=given.input_names, output_names=given.output_names
        )

    return build


class Translator(nn.Module):
    """torch's own transformer with all of its masks."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, width), nn.Embedding(20, width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 32, batch_first=True, norm_first=True)
        self.last = nn.Linear(width, 20)

    def forward(self, source: Tensor, target: Tensor) -> Any:
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        padding = source == 0
        hidden = self.transformer(
            self.source(source), self.target(target), tgt_mask=causal, src_key_padding_mask=padding,
            memory_key_padding_mask=padding, tgt_is_causal=True,
        )  # fmt: skip
        return self.last(hidden)


class Padded(nn.Module):
    """torch's encoder, whose fast path would take the padding out."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 2, 32, batch_first=True), 2)

    def forward(self, ids: Tensor) -> Tensor:
        padding = ids == 0
        y = self.encoder(self.embed(ids), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1).to(y.dtype)
        return (y * kept).sum(1) / kept.sum(1).clamp(min=1)  # type: ignore[no-any-return]


class Chunked(nn.Module):
    """Attention in windows: the sequence is padded to whole windows, by conditions on its length."""

    def __init__(self, width: int = 8, window: int = 4) -> None:
        super().__init__()
        self.window = window
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        batch, length, width = x.shape
        missing = (self.window - length % self.window) % self.window
        y = nn.functional.pad(x, (0, 0, 0, missing))
        windows = y.view(batch * (y.size(1) // self.window), self.window, width)
        windows, _ = self.attention(windows, windows, windows, need_weights=False)
        return windows.reshape(batch, -1, width)[:, :length]


class Autoencoder(nn.Module):
    """A variational one: in evaluation the mean is decoded, beside the divergence."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 16))
        self.decoder = nn.Sequential(
            nn.Linear(8, 8 * 49), nn.Unflatten(1, (8, 7, 7)), nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(spread) * torch.exp(0.5 * spread) if self.training else mean
        return torch.sigmoid(self.decoder(z)), -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(1)


class Twins(nn.Module):
    """Two inputs of different sizes through one network, compared by their directions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 6)
        )

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.layers(left), self.layers(right)
        return nn.functional.cosine_similarity(a, b), nn.functional.pairwise_distance(a, b)


class Recommender(nn.Module):
    """Sums of bags of features and all products of pairs."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, width, mode="sum") for _ in range(3))
        self.dense, self.last = nn.Linear(4, width), nn.Linear(width + 6, 1)

    def forward(self, numbers: Tensor, features: Tensor) -> Tensor:
        x = torch.relu(self.dense(numbers))
        parts = torch.stack([x, *(bag(features[:, i]) for i, bag in enumerate(self.bags))], 1)
        products = torch.bmm(parts, parts.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, offset=-1)
        return torch.sigmoid(self.last(torch.cat([x, products[:, rows, columns]], 1)))


def translator() -> Call:
    source = torch.randint(1, 20, (2, 7))
    source[0, -2:] = 0
    axes = {"source": {0: "batch", 1: "source"}, "target": {0: "batch", 1: "target"}}
    return Call(enliven(Translator()), (source, torch.randint(1, 20, (2, 5))), axes=axes)


def padded() -> Call:
    ids = torch.randint(1, 20, (3, 7))
    ids[0, -2:] = 0
    return Call(enliven(Padded()), (ids,), axes={"ids": {0: "batch", 1: "words"}})


def twins() -> Call:
    axes = {"left": {0: "batch", 2: "h", 3: "w"}, "right": {0: "batch", 2: "other_h", 3: "other_w"}}
    return Call(enliven(Twins()), (torch.rand(2, 1, 10, 12), torch.rand(2, 1, 14, 9)), axes=axes)


def recommender() -> Call:
    inputs = torch.rand(3, 4), torch.randint(0, 20, (3, 3, 5))
    return Call(enliven(Recommender()), inputs, axes={"numbers": {0: "batch"}, "features": {0: "batch", 2: "bag"}})


def one(model: type[nn.Module], *shape: int, axes: Axes) -> Callable[[], Call]:
    return lambda: Call(enliven(model()), (torch.rand(*shape),), axes=axes)


MODELS = [
    Model("dcgan", "classic", example(DCGAN)),
    Model("super-resolution", "classic", example(SUPER_RESOLUTION)),
    Model("lstm-language-model", "classic", example(WORD_LANGUAGE_MODEL)),
    Model("point-pillars", "classic", example(PILLARS)),
    Model("torch-transformer-masks", "classic", translator, fast=True),
    Model("torch-encoder-padded", "classic", padded, fast=True),
    Model("windowed-attention", "classic", one(Chunked, 2, 10, 8, axes={"x": {0: "batch", 1: "time"}}), fast=True),
    Model("variational-autoencoder", "classic", one(Autoencoder, 2, 1, 14, 14, axes={"x": {0: "batch"}}), fast=True),
    Model("siamese", "classic", twins, fast=True),
    Model("recommender", "classic", recommender, fast=True),
]
