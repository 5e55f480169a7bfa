"""The names on docs/from-torch-onnx.md, and the walk-throughs that the documentation of torch.onnx is known for."""

from __future__ import annotations

import pathlib
import re

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.classic.running import exported, graph_of, run, same

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "from-torch-onnx.md"


def test_every_name_on_the_page_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("## The names") : text.index("## `is_in_onnx_export()`")]
    names = re.findall(r"^\| ((?:`\w+`(?:, | … )?)+)", table, re.M)
    found = [name for row in names for name in re.findall(r"`(\w+)`", row)]
    assert len(found) > 15 and all(hasattr(onnxport, name) for name in found)
    missing = text[text.index("## Names that are not there") :]
    others = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*)\|", missing, re.M)))
    assert len(others) > 15 and not any(hasattr(onnxport, name) for name in others)


# Walk-throughs


class AlexNet(nn.Module):
    """A small one of the same build."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2), nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(True),
            nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(64, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))  # type: ignore[no-any-return]


def test_alexnet(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, image = AlexNet(), torch.randn(10, 3, 63, 63)
    names = ["actual_input_1", *(f"learned_{i}" for i in range(8))]
    path = tmp_path / "alexnet.onnx"
    onnxport.export(model, image, path, verbose=True, input_names=names, output_names=["output1"], opset_version=9)
    text = capsys.readouterr().out
    assert text.startswith("graph(%actual_input_1 : Float(10, 3, 63, 63),\n      %learned_0 : Float(8, 3, 11, 11),")
    assert text.rstrip().endswith("return (%output1)") and "onnx::MaxPool" in text
    loaded = onnx.load(path)
    onnx.checker.check_model(loaded)
    assert "Conv" in onnx.helper.printable_graph(loaded.graph)
    x = torch.randn(10, 3, 63, 63)
    same(model.eval()(x).detach(), run(path.read_bytes(), x))


class SuperResolution(nn.Module):
    def __init__(self, upscale: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5, 1, 2), nn.Conv2d(16, upscale**2, 3, 1, 1)
        self.shuffle = nn.PixelShuffle(upscale)

    def forward(self, x: Tensor) -> Tensor:
        return self.shuffle(self.conv2(torch.relu(self.conv1(x))))  # type: ignore[no-any-return]


def test_super_resolution() -> None:
    model = SuperResolution(3)
    model.eval()
    axes = {"input": {0: "batch_size"}, "output": {0: "batch_size"}}
    file = exported(
        model, torch.randn(1, 1, 24, 24, requires_grad=True), export_params=True, opset_version=10,
        do_constant_folding=True, input_names=["input"], output_names=["output"], dynamic_axes=axes,
    )  # fmt: skip
    output = graph_of(file).output[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in output] == ["batch_size", 1, 72, 72]
    x = torch.randn(5, 1, 24, 24)
    same(model(x).detach(), run(file, x))


class LanguageModel(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.encoder = nn.Embedding(20, 8)
        self.rnn: nn.RNNBase = getattr(nn, kind)(8, 6, 2, dropout=0.2)
        self.decoder = nn.Linear(6, 20)

    def forward(self, words: Tensor, hidden: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, object]:
        output, hidden = self.rnn(self.encoder(words), hidden)
        return torch.log_softmax(self.decoder(output).view(-1, 20), dim=1), hidden


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_word_language_model(kind: str) -> None:
    model = LanguageModel(kind).eval()

    def state(batch: int) -> Tensor | tuple[Tensor, Tensor]:
        one = torch.randn(2, batch, 6)
        return (one, torch.randn(2, batch, 6)) if kind == "LSTM" else one

    words = torch.randint(0, 20, (7, 1))
    names = ["words", "hidden", "cell"][: 3 if kind == "LSTM" else 2]
    axes = {"words": {0: "length", 1: "batch"}, **{name: {1: "batch"} for name in names[1:]}}
    file = exported(model, (words, state(1)), input_names=names, dynamic_axes=axes)
    given, before = torch.randint(0, 20, (4, 3)), state(3)
    scores, after = model(given, before)
    flat = [*before] if isinstance(before, tuple) else [before]
    expected = [*after] if isinstance(after, tuple) else [after]
    same([tensor.detach() for tensor in (scores, *expected)], run(file, given, *flat))
