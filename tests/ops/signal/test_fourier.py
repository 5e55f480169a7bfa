"""The Fourier family: torch.fft, and the short-time transforms."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.ops.harness import PRECISE, C, Case, F, table


def row(id: str, call: Callable[..., object], *inputs: object, **settings: object) -> Case:
    return Case(id, call, list(inputs), **{"dtypes": PRECISE, **settings})  # type: ignore[arg-type]


def with_window(call: Callable[..., Tensor], size: int, **settings: object) -> Callable[[Tensor], Tensor]:
    """A short-time transform through a Hann window of the precision of its input."""

    def run(x: Tensor) -> Tensor:
        window = torch.hann_window(int(settings.get("win_length", size)), dtype=x.dtype.to_real())  # type: ignore[call-overload]
        return call(x, size, window=window, **settings)

    return run


def stft(size: int = 16, **settings: object) -> Callable[[Tensor], Tensor]:
    return with_window(torch.stft, size, **{"return_complex": True, **settings})


def istft(size: int = 8, **settings: object) -> Callable[[Tensor], Tensor]:
    return with_window(torch.istft, size, **settings)


ONE_AXIS = [
    row("fft", torch.fft.fft, C("n", 9), graph=["Reshape", "MatMul", "Reshape"]),
    row("fft-power-of-two", torch.fft.fft, C("n", 32), graph=["DFT"]),
    row("fft-real", torch.fft.fft, F("n", 9), graph=["MatMul", "Reshape"]),
    row("fft-free-length", torch.fft.fft, C(2, "t"), dynamic_since=9),
    row("fft-dim", lambda z: torch.fft.fft(z, dim=0, norm="ortho"), C(9, "n")),
    row("fft-cut", lambda z: torch.fft.fft(z, 5), C("n", 9)),
    row("fft-filled", lambda z: torch.fft.fft(z, 12, norm="forward"), C("n", 9)),
    row("fft-free-filled", lambda z: torch.fft.fft(z, 12), C(2, "t")),
    row("fft-of-parts", lambda x: torch.fft.fft(torch.complex(x, x + 1)), F("n", 9)),
    row("ifft", torch.fft.ifft, C("n", 9)),
    row("ifft-power-of-two", torch.fft.ifft, C("n", 32), graph=["DFT"]),
    row("ifft-free-length", lambda z: torch.fft.ifft(z, norm="ortho"), C(2, "t"), dynamic_since=9),
    row("rfft", torch.fft.rfft, F("n", 9), graph=["MatMul", "Reshape"]),
    row("rfft-long", torch.fft.rfft, F("n", 512), graph=["Unsqueeze", "DFT"]),
    row("rfft-free-length", torch.fft.rfft, F(2, "t"), dynamic_since=9),
    row("irfft", torch.fft.irfft, C("n", 5), graph=["Reshape", "MatMul"]),
    row("irfft-odd", lambda z: torch.fft.irfft(z, 9, norm="ortho"), C("n", 5)),
    row("irfft-free-length", torch.fft.irfft, C(2, "t"), dynamic_since=10),
    row("irfft-long", torch.fft.irfft, C("n", 1025), graph=["DFT", "Squeeze"], tolerance=2.0),
    row("hfft", torch.fft.hfft, C("n", 5)),
    row("hfft-free-length", lambda z: torch.fft.hfft(z, norm="ortho"), C(2, "t"), dynamic_since=10),
    row("ihfft", torch.fft.ihfft, F("n", 9)),
    row("ihfft-free-length", torch.fft.ihfft, F(2, "t"), dynamic_since=9),
]
SEVERAL_AXES = [
    row("fft2", torch.fft.fft2, C("n", 4, 6)),
    row("fft2-free", torch.fft.fft2, F("n", "h", "w"), dynamic_since=9),
    row("ifft2", torch.fft.ifft2, C("n", 4, 6)),
    row("rfft2", lambda x: torch.fft.rfft2(x, norm="ortho"), F("n", 4, 6)),
    row("rfft2-free", torch.fft.rfft2, F("n", 2, "h", "w"), dynamic_since=9),
    row("irfft2", torch.fft.irfft2, C("n", 4, 4)),
    row("irfft2-s", lambda z: torch.fft.irfft2(z, s=(4, 7)), C("n", 4, 4)),
    row("irfft2-free", torch.fft.irfft2, C("n", "h", "w"), dynamic_since=10),
    row("hfft2", torch.fft.hfft2, C("n", 4, 4)),
    row("ihfft2", torch.fft.ihfft2, F("n", 4, 6)),
    row("fftn", lambda z: torch.fft.fftn(z, s=(5, 3)), C("n", 4, 6)),
    row("fftn-dim", lambda z: torch.fft.fftn(z, dim=(0, 2), norm="ortho"), C(3, "n", 6)),
    row("ifftn", torch.fft.ifftn, C(3, 4)),
    row("rfftn", torch.fft.rfftn, F(3, 4)),
    row("irfftn", torch.fft.irfftn, C(3, 4)),
    row("hfftn", torch.fft.hfftn, C(3, 4)),
    row("ihfftn", torch.fft.ihfftn, F(3, 4)),
]
WINDOWS = (
    torch.bartlett_window, torch.blackman_window, torch.hamming_window, torch.hann_window, torch.kaiser_window,
)  # fmt: skip
AROUND = [
    row("fftshift", torch.fft.fftshift, F("n", 5), dynamic_since=10),
    row("fftshift-complex", lambda z: torch.fft.fftshift(z, -1), C("n", 4), graph=["Gather"]),
    row("ifftshift", lambda z: torch.fft.ifftshift(z, -1), C("n", 5)),
    row("fftfreq", lambda x: x * torch.fft.fftfreq(x.shape[-1], 0.5), F(2, "t"), dynamic_since=9),
    row("rfftfreq", lambda x: x * torch.fft.rfftfreq(2 * x.shape[-1] - 1), F(2, "t"), dynamic_since=9),
    *(row(make.__name__, lambda x, make=make: x * make(7, dtype=x.dtype), F("n", 7)) for make in WINDOWS),
    *(
        row(
            f"{make.__name__}-of-size",
            lambda x, make=make: x * make(x.shape[0], dtype=x.dtype),
            F("n"),
            dynamic_since=9,
        )
        for make in WINDOWS
    ),
    *(
        row(f"{make.__name__}-symmetric", lambda x, make=make: x * make(x.shape[0], False), F("t"), dynamic_since=9)
        for make in WINDOWS
    ),
    row("hamming-shaped", lambda x: x * torch.hamming_window(x.shape[0], True, 0.6, 0.3), F("t"), dynamic_since=9),
    row("kaiser-shaped", lambda x: x * torch.kaiser_window(x.shape[0], True, 5.0), F("t"), dynamic_since=9),
]
CONV = ["Reshape", "Pad", "Reshape", "Unsqueeze", "Conv", "Split", "Unsqueeze", "Unsqueeze", "Concat"]
SHORT_TIME = [
    row("stft", stft(), F("n", 40), graph=CONV),
    row("stft-not-centred", stft(center=False), F("n", 40)),
    row("stft-constant", stft(pad_mode="constant", hop_length=5), F(2, 40)),
    row("stft-normalized", stft(normalized=True), F(2, 40)),
    row("stft-twosided", stft(onesided=False), F(2, 40)),
    row("stft-real-result", stft(return_complex=False), F(2, 40)),
    row("stft-short-window", stft(win_length=10), F(40)),
    row("stft-aligned", stft(win_length=10, center=False, align_to_window=True), F(40)),
    row("stft-complex", stft(onesided=False), C(2, 40)),
    row("stft-odd", stft(15), F(2, 40)),
    row("stft-1024", stft(1024, center=False), F(2, 2048), graph=["Unsqueeze", "STFT", "Transpose"]),
    row("stft-computed-window", lambda x, w: torch.stft(x, 16, window=w, return_complex=True), F(2, 40), F(16)),
    row("istft", istft(), C("n", 5, 6)),
    row("istft-free", istft(), C("n", 5, "t")),
    row("istft-single", istft(normalized=True), C(5, 6)),
    row("istft-length", istft(length=9), C(2, 5, 6)),
    row("istft-longer", istft(length=30), C(2, 5, 6)),
    row("istft-twosided", istft(onesided=False), C(2, 8, 6)),
    row("istft-complex", istft(onesided=False, return_complex=True), C(2, 8, 6)),
    row("istft-short-window", istft(win_length=6, hop_length=2), C(2, 5, 6)),
]

test_one_axis = table(ONE_AXIS)
test_several_axes = table(SEVERAL_AXES)
test_around = table(AROUND)
test_short_time = table(SHORT_TIME)


# Models


class MelSpectrogram(nn.Module):
    """Power spectrogram, filter bank, logarithm, and the cosine transform that makes cepstral coefficients of it."""

    def __init__(self, size: int = 64, step: int = 16, bands: int = 8, coefficients: int = 5) -> None:
        super().__init__()
        self.size, self.step = size, step
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("bank", torch.rand(size // 2 + 1, bands))
        places = torch.arange(bands) + 0.5
        self.register_buffer("cosines", torch.cos(math.pi / bands * torch.outer(places, torch.arange(coefficients))))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, self.size, self.step, window=self.window, return_complex=True)
        power = spectrum.abs().pow(2.0)
        mel = (power.transpose(-1, -2) @ self.bank).clamp(min=1e-10).log10()
        return (mel @ self.cosines).transpose(-1, -2)


class Denoiser(nn.Module):
    """A mask over the spectrum, made by convolutions, and the signal again."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.convolution = nn.Conv1d(17, 17, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        mask = torch.sigmoid(self.convolution(spectrum.abs()))
        return torch.istft(spectrum * mask, 32, 8, window=self.window, length=x.shape[-1])


class FourierMixer(nn.Module):
    """A learned filter in the frequencies of both axes of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6, 4, 2))

    def forward(self, x: Tensor) -> Tensor:
        frequencies = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(frequencies, s=x.shape[-2:], norm="ortho")


@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize("model", [MelSpectrogram(), Denoiser()], ids=["mel", "denoiser"])
def test_audio_at_other_lengths(model: nn.Module, opset: int) -> None:
    model.eval()
    axes = {"x": {0: "batch", 1: "time"}}
    program = onnxport.export(
        model, torch.randn(2, 400), io.BytesIO(), input_names=["x"], dynamic_axes=axes, opset_version=opset
    )
    assert program.verification.passed
    for shape in ((1, 333), (3, 1000)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("opset", [9, 17, 20])
def test_learned_filter_of_frequencies(opset: int) -> None:
    model = FourierMixer()
    axes = {"x": {0: "batch"}}
    program = onnxport.export(
        model, torch.randn(2, 3, 6, 6), io.BytesIO(), input_names=["x"], dynamic_axes=axes, opset_version=opset
    )
    assert program.verification.passed


@pytest.mark.parametrize("size", [1000, 1024, 1500, 2000, 4096])
@pytest.mark.parametrize("call", [torch.fft.fft, torch.fft.rfft, torch.fft.irfft], ids=lambda call: call.__name__)
def test_long_transforms_are_exact(call: Callable[[Tensor], Tensor], size: int) -> None:
    """ONNX Runtime's DFT of float32 is wrong in the fourth digit at 1000."""
    program = onnxport.export(call, torch.randn(2, size), io.BytesIO())
    x = torch.randn(2, size)
    expected = call(x)
    assert float((program(x) - expected).abs().max() / expected.abs().max()) < 5e-6


def test_a_long_transform_below_opset_17_names_it() -> None:
    with pytest.raises(onnxport.UnsupportedOpsetError, match="opset_version=17"):
        onnxport.export(torch.fft.fft, torch.randn(2, 5000), io.BytesIO(), opset_version=13)


def test_the_length_of_a_window_that_is_an_input_is_fixed_by_the_call() -> None:
    """An axis of the window that was declared dynamic stays as long as ``win_length`` says."""

    def there_and_back(x: Tensor, window: Tensor) -> Tensor:
        frames = torch.stft(x, 16, 4, 12, window, return_complex=True)
        return torch.istft(frames, 16, 4, 12, window)

    x, window, target = torch.rand(64), torch.hann_window(12), io.BytesIO()
    axes = {"x": {0: "n"}, "window": {0: "w"}}
    with pytest.warns(onnxport.DynamicAxisWarning, match="'w' is 12"):
        program = onnxport.export(there_and_back, (x, window), target, input_names=["x", "window"], dynamic_axes=axes)
    longer = torch.rand(96)
    torch.testing.assert_close(program(longer, window), there_and_back(longer, window))
