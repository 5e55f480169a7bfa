"""Tables and time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import weight_norm

from tests.models.model import Axes, Call, Model, enliven

SERIES: Axes = {"x": {0: "batch", 1: "time"}}


class TabTransformer(nn.Module):
    """Columns of categories as tokens of a transformer, beside columns of numbers."""

    def __init__(self, sizes: tuple[int, ...] = (4, 7, 3), numbers: int = 5, width: int = 16) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0))
        self.embed = nn.Embedding(sum(sizes), width)
        self.columns = nn.Parameter(torch.randn(len(sizes), width))
        layer = nn.TransformerEncoderLayer(width, 4, 32, batch_first=True, activation="gelu", norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(numbers)
        self.head = nn.Sequential(nn.Linear(width * len(sizes) + numbers, 32), nn.SELU(), nn.Linear(32, 2))

    def forward(self, categories: Tensor, numbers: Tensor) -> Any:
        x = self.encoder(self.embed(categories + self.offsets) + self.columns)
        return self.head(torch.cat([x.flatten(1), self.norm(numbers)], dim=-1))


class TabNet(nn.Module):
    """Steps that each choose some columns, by a softmax that gives exact zeros."""

    def __init__(self, columns: int = 8, steps: int = 3) -> None:
        super().__init__()
        self.first = nn.BatchNorm1d(columns)
        self.transforms = nn.ModuleList(nn.Linear(columns, 16) for _ in range(steps))
        self.choices = nn.ModuleList(nn.Linear(8, columns) for _ in range(steps))
        self.head = nn.Linear(8, 3)

    @staticmethod
    def sparsemax(x: Tensor) -> Tensor:
        ordered, _ = torch.sort(x, dim=-1, descending=True)
        counts = torch.arange(1, x.size(-1) + 1, dtype=x.dtype)
        sums = ordered.cumsum(-1) - 1
        size = (counts * ordered > sums).sum(dim=-1, keepdim=True)
        threshold = sums.gather(-1, size - 1) / size.to(x.dtype)
        return torch.clamp(x - threshold, min=0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        prior, mask, total = torch.ones_like(x), torch.ones_like(x), torch.zeros(x.shape[0], 8)
        attention = torch.zeros(x.shape[0], 8)
        for transform, choose in zip(self.transforms, self.choices, strict=True):
            decision, attention = nn.functional.glu(torch.cat([transform(mask * x)] * 2, -1), -1).chunk(2, -1)
            total = total + torch.relu(decision)
            mask = self.sparsemax(prior * choose(attention))
            prior = prior * (1.3 - mask)
        return self.head(total), mask


class BasisExpansion(nn.Module):
    """Blocks that each explain a part of the series and forecast from it."""

    def __init__(self, past: int = 12, future: int = 4, blocks: int = 3) -> None:
        super().__init__()
        self.past, self.future = past, future
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(past, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))
            for _ in range(blocks)
        )
        grid = torch.linspace(0, 1, past), torch.linspace(0, 1, future)
        self.basis = [torch.stack([line**power for power in range(4)]) for line in grid]

    def forward(self, x: Tensor) -> Tensor:
        forecast = torch.zeros(size=(x.size(0), self.future))
        for block in self.blocks:
            explained, ahead = block(x).split([4, 4], dim=-1)
            x = x - explained.mm(self.basis[0])
            forecast = forecast + ahead.mm(self.basis[1])
        return forecast


class TemporalConvolutions(nn.Module):
    """Dilated causal convolutions with normalised weights, what sticks out cut off at the end."""

    def __init__(self, width: int = 8, levels: int = 3) -> None:
        super().__init__()
        self.levels = nn.ModuleList()
        for level in range(levels):
            space = 2 * 2**level
            self.levels.append(
                weight_norm(nn.Conv1d(width if level else 3, width, 3, padding=space, dilation=2**level))
            )
        self.first, self.last = nn.Conv1d(3, width, 1), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Any:
        y = x.transpose(1, 2)
        for level, layer in enumerate(self.levels):
            z = torch.relu(layer(y)[:, :, : -layer.padding[0]].contiguous())
            y = torch.relu(z + (y if level else self.first(y)))
        return self.last(y[:, :, -1])


class Autoregressive(nn.Module):
    """A recurrent model of a distribution: the past is read, then a fixed number of steps is rolled out."""

    def __init__(self, width: int = 16, steps: int = 4) -> None:
        super().__init__()
        self.steps, self.lstm = steps, nn.LSTM(2, width, 2, batch_first=True)
        self.embed = nn.Embedding(5, 1)
        self.mean, self.spread = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x: Tensor, series: Tensor) -> tuple[Tensor, Tensor]:
        which = self.embed(series)
        scale = x.abs().mean(1, keepdim=True) + 1
        past = torch.cat([x.unsqueeze(-1) / scale.unsqueeze(-1), which.unsqueeze(1).expand(-1, x.size(1), -1)], -1)
        hidden, state = self.lstm(past)
        means, spreads = [], []
        for _ in range(self.steps):
            mean = self.mean(hidden[:, -1])
            means.append(mean * scale)
            spreads.append(nn.functional.softplus(self.spread(hidden[:, -1])) * scale)
            hidden, state = self.lstm(torch.cat([mean, which], -1).unsqueeze(1), state)
        return torch.cat(means, 1), torch.cat(spreads, 1)


class PackedClassifier(nn.Module):
    """Texts of different lengths through a recurrent layer in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.gru = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.attention, self.last = nn.Linear(12, 1), nn.Linear(12, 3)

    def forward(self, ids: Tensor, lengths: Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        y, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=ids.shape[1])
        outside = torch.arange(ids.shape[1])[None, :] >= lengths[:, None]
        weight = self.attention(y).squeeze(-1).masked_fill(outside, float("-inf")).softmax(-1)
        return self.last(torch.bmm(weight.unsqueeze(1), y).squeeze(1))


class Mixer(nn.Module):
    """Forecasts of all variables at once: mixed over time, then over variables; normalised by the series itself."""

    def __init__(self, past: int = 12, future: int = 6, variables: int = 3) -> None:
        super().__init__()
        self.time, self.features = nn.Linear(past, past), nn.Linear(variables, variables)
        self.out = nn.Linear(past, future)

    def forward(self, x: Tensor) -> Any:
        mean, spread = x.mean(1, keepdim=True).detach(), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = (x - mean) / spread
        y = y + torch.relu(self.time(y.transpose(1, 2))).transpose(1, 2)
        y = y + torch.relu(self.features(y))
        return self.out(y.transpose(1, 2)).transpose(1, 2) * spread + mean


class Seasons(nn.Module):
    """A moving average with repeated ends, and the strongest lags by autocorrelation."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.query, self.key, self.last = nn.Linear(3, width), nn.Linear(3, width), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Any:
        front, end = x[:, 0:1, :].repeat(1, 2, 1), x[:, -1:, :].repeat(1, 2, 1)
        trend = nn.functional.avg_pool1d(torch.cat([front, x, end], 1).permute(0, 2, 1), 5, 1).permute(0, 2, 1)
        season = x - trend
        q = torch.fft.rfft(self.query(season).permute(0, 2, 1), dim=-1)
        k = torch.fft.rfft(self.key(season).permute(0, 2, 1), dim=-1)
        correlation = torch.fft.irfft(q * torch.conj(k), n=x.shape[1], dim=-1).mean(1)
        weights, lags = torch.topk(correlation, 2, dim=-1)
        places = (torch.arange(x.shape[1])[None, :, None] + lags[:, None, :]) % x.shape[1]
        rolled = torch.gather(season.unsqueeze(-1).expand(-1, -1, -1, 2), 1, places.unsqueeze(2).expand(-1, -1, 3, -1))
        return self.last((rolled * weights.softmax(-1)[:, None, None, :]).sum(-1) + trend)


def tab_transformer() -> Call:
    categories = torch.stack([torch.randint(0, size, (3,)) for size in (4, 7, 3)], 1)
    axes = {"categories": {0: "batch"}, "numbers": {0: "batch"}}
    return Call(enliven(TabTransformer()), (categories, torch.randn(3, 5)), axes=axes)


def autoregressive() -> Call:
    axes = {"x": {0: "batch", 1: "time"}, "series": {0: "batch"}}
    return Call(enliven(Autoregressive()), (torch.rand(3, 10), torch.tensor([0, 3, 4])), axes=axes)


def packed() -> Call:
    axes = {"ids": {0: "batch", 1: "time"}, "lengths": {0: "batch"}}
    return Call(enliven(PackedClassifier()), (torch.randint(1, 30, (3, 7)), torch.tensor([4, 7, 2])), axes=axes)


def series(model: type[nn.Module], *shape: int, axes: Axes = SERIES) -> Callable[[], Call]:
    """A call of a model that has run once: until then the old weight norm holds a tensor that cannot be copied."""

    def build() -> Call:
        made, x = enliven(model()), torch.randn(*shape)
        with torch.no_grad():
            made(x)
        return Call(made, (x,), axes=axes)

    return build


ROWS: Axes = {"x": {0: "batch"}}

MODELS = [
    Model("tab-transformer", "table", tab_transformer, fast=True),
    Model("tabnet", "table", series(TabNet, 4, 8, axes=ROWS), fast=True),
    Model("n-beats", "time series", series(BasisExpansion, 3, 12, axes=ROWS), fast=True),
    Model("tcn", "time series", series(TemporalConvolutions, 2, 11, 3), fast=True),
    Model("deepar", "time series", autoregressive, fast=True),
    Model("tsmixer", "time series", series(Mixer, 2, 12, 3, axes=ROWS), fast=True),
    Model("autoformer-block", "time series", series(Seasons, 2, 13, 3), fast=True),
    Model("packed-gru", "recurrent", packed, fast=True),
]
