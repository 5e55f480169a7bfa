"""Speech and sound, in the manner of the public repositories: recognition, synthesis, separation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import weight_norm

from tests.models.model import Axes, Call, Model, enliven

WAVE: Axes = {"x": {0: "batch", 2: "time"}}
SAMPLES: Axes = {"x": {0: "batch", 1: "time"}}


class RawWave(nn.Module):
    """Commands from the samples themselves: strided convolutions and a mean over what is left."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = ((1, width, 80, 4), (width, width, 3, 1), (width, 2 * width, 3, 1))
        self.layers = nn.ModuleList(nn.Conv1d(a, b, k, stride=s) for a, b, k, s in widths)
        self.norms = nn.ModuleList(nn.BatchNorm1d(b) for _, b, _, _ in widths)
        self.last = nn.Linear(2 * width, 5)

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = nn.functional.max_pool1d(torch.relu(norm(layer(x))), 4)
        x = nn.functional.avg_pool1d(x, x.shape[-1]).permute(0, 2, 1)
        return torch.log_softmax(self.last(x), dim=2)


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates; skips are summed."""

    def __init__(self, width: int = 8, layers: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 16, 1))

    def forward(self, x: Tensor) -> Any:
        x = self.first(x)
        total: Any = 0
        for gate, skip in zip(self.gates, self.skips, strict=True):
            a, b = gate(nn.functional.pad(x, (gate.dilation[0], 0))).chunk(2, dim=1)
            kept, more = skip(torch.tanh(a) * torch.sigmoid(b)).chunk(2, dim=1)
            x = (x + kept) * math.sqrt(0.5)
            total = total + more
        return self.last(total)


class Vocoder(nn.Module):
    """Mel frames to samples: transposed convolutions with normalised weights, residual blocks of several kernels."""

    def __init__(self, mels: int = 10, width: int = 16) -> None:
        super().__init__()
        self.first = weight_norm(nn.Conv1d(mels, width, 7, padding=3))
        self.ups = nn.ModuleList(
            weight_norm(nn.ConvTranspose1d(width >> i, width >> i + 1, 8, 4, padding=2)) for i in range(2)
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(self.residual(width >> i + 1, kernel) for kernel in (3, 7)) for i in range(2)
        )
        self.last = weight_norm(nn.Conv1d(width >> 2, 1, 7, padding=3))

    @staticmethod
    def residual(width: int, kernel: int) -> nn.ModuleList:
        dilated = ((d, (kernel * d - d) // 2) for d in (1, 3))
        return nn.ModuleList(weight_norm(nn.Conv1d(width, width, kernel, dilation=d, padding=p)) for d, p in dilated)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            x = up(nn.functional.leaky_relu(x, 0.1))
            parts = []
            for block in blocks:
                y = x
                for layer in block:  # type: ignore[attr-defined]
                    y = layer(nn.functional.leaky_relu(y, 0.1)) + y
                parts.append(y)
            x = torch.stack(parts).mean(0)
        return torch.tanh(self.last(nn.functional.leaky_relu(x)))


class Separator(nn.Module):
    """Masks over a learned basis; the mixture is padded to whole frames and the result cut to its length."""

    def __init__(self, width: int = 16, kernel: int = 8, voices: int = 2) -> None:
        super().__init__()
        self.kernel, self.stride, self.voices, self.width = kernel, kernel // 2, voices, width
        self.encoder = nn.Conv1d(1, width, kernel, stride=self.stride, bias=False)
        self.norm = nn.GroupNorm(1, width, eps=1e-8)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, 24, 1), nn.PReLU(), nn.GroupNorm(1, 24),
                nn.Conv1d(24, 24, 3, padding=2**i, dilation=2**i, groups=24), nn.PReLU(), nn.Conv1d(24, width, 1),
            )
            for i in range(3)
        )  # fmt: skip
        self.mask = nn.Conv1d(width, width * voices, 1)
        self.decoder = nn.ConvTranspose1d(width, 1, kernel, stride=self.stride, bias=False)

    def forward(self, x: Tensor) -> Any:
        length = x.shape[-1]
        rest = (length - self.kernel) % self.stride
        missing = self.stride - rest if rest else 0
        x = nn.functional.pad(x, (self.stride, self.stride + missing))
        frames = torch.relu(self.encoder(x))
        y = self.norm(frames)
        for block in self.blocks:
            y = y + block(y)
        masks = torch.sigmoid(self.mask(y)).view(x.shape[0], self.voices, self.width, -1)
        parts = (masks * frames.unsqueeze(1)).view(x.shape[0] * self.voices, self.width, -1)
        return self.decoder(parts).view(x.shape[0], self.voices, -1)[..., self.stride : self.stride + length]


class Synthesizer(nn.Module):
    """Text to mel frames with an attention that remembers where it was; the number of frames is fixed."""

    def __init__(self, width: int = 16, frames: int = 4, mels: int = 6) -> None:
        super().__init__()
        self.width, self.frames, self.mels = width, frames, mels
        self.embed = nn.Embedding(30, width)
        self.convolution = nn.Sequential(nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
        self.encoder = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.prenet, self.query = nn.Linear(mels, width), nn.Linear(width, width, bias=False)
        self.memory, self.score = nn.Linear(width, width, bias=False), nn.Linear(width, 1, bias=False)
        self.location = nn.Conv1d(2, width, 5, padding=2, bias=False)
        self.cell, self.last = nn.LSTMCell(2 * width, width), nn.Linear(2 * width, mels)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        memory, _ = self.encoder(self.convolution(self.embed(ids).transpose(1, 2)).transpose(1, 2))
        batch, length = ids.shape
        keys = self.memory(memory)
        hidden, state = memory.new_zeros(batch, self.width), memory.new_zeros(batch, self.width)
        weights, total = memory.new_zeros(batch, length), memory.new_zeros(batch, length)
        context, frame = memory.new_zeros(batch, self.width), memory.new_zeros(batch, self.mels)
        made, attended = [], []
        for _ in range(self.frames):
            hidden, state = self.cell(torch.cat([torch.relu(self.prenet(frame)), context], -1), (hidden, state))
            before = self.location(torch.stack([weights, total], 1)).transpose(1, 2)
            weights = self.score(torch.tanh(self.query(hidden.unsqueeze(1)) + keys + before)).squeeze(-1).softmax(-1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            frame = self.last(torch.cat([hidden, context], -1))
            made.append(frame)
            attended.append(weights)
        return torch.stack(made, 2), torch.stack(attended, 1)


class Recognizer(nn.Module):
    """Spectrogram, normalised; convolutions in time and frequency, a recurrent layer in both directions, letters."""

    def __init__(self, window: int = 32, width: int = 12) -> None:
        super().__init__()
        self.size = window
        self.register_buffer("window", torch.hann_window(window))
        self.register_buffer("bands", torch.rand(window // 2 + 1, 10))
        self.convolutions = nn.Sequential(nn.Conv2d(1, 4, 3, stride=(2, 1), padding=1), nn.Hardtanh(0, 20))
        self.gru = nn.GRU(20, width, batch_first=True, bidirectional=True)
        self.last = nn.Linear(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, self.size, self.size // 2, window=self.window, center=True, return_complex=True)
        power = torch.matmul(spectrum.abs().pow(2).transpose(1, 2), self.bands).clamp(min=1e-6).log()
        power = (power - power.mean((1, 2), keepdim=True)) / power.std((1, 2), keepdim=True)
        y = self.convolutions(power.transpose(1, 2).unsqueeze(1))
        y = y.view(y.size(0), y.size(1) * y.size(2), y.size(3)).transpose(1, 2)
        y, _ = self.gru(y)
        y = y.view(y.size(0), y.size(1), 2, -1).sum(2)
        return torch.log_softmax(self.last(y), -1)


def wave(model: type[nn.Module], *shape: int, axes: Axes = WAVE) -> Callable[[], Call]:
    """A call of a model that has run once: until then the old weight norm holds a tensor that cannot be copied."""

    def build() -> Call:
        made, x = enliven(model()), torch.randn(*shape)
        with torch.no_grad():
            made(x)
        return Call(made, (x,), axes=axes, input_names=["x"])

    return build


def synthesizer() -> Call:
    return Call(enliven(Synthesizer()), (torch.randint(0, 30, (2, 7)),), axes={"ids": {0: "batch", 1: "letters"}})


MODELS = [
    Model("m5", "speech recognition", wave(RawWave, 2, 1, 1000), fast=True),
    Model("deepspeech-like", "speech recognition", wave(Recognizer, 2, 320, axes=SAMPLES), fast=True),
    Model("wavenet", "speech synthesis", wave(WaveNet, 2, 1, 40), fast=True),
    Model("hifi-gan", "speech synthesis", wave(Vocoder, 2, 10, 9), fast=True),
    Model("tacotron-like", "speech synthesis", synthesizer, fast=True),
    Model("conv-tasnet", "separation", wave(Separator, 2, 1, 101)),
]  # fmt: skip
