"""Quantized models on handwritten digits: accuracy, size and time against float, and weights of 2 bits.

    python -m benchmarks.quantization [seeds]

Needs scikit-learn, which brings the digits with it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import onnxport
from onnxport import quant

BATCHES = (1, 16, 128)
FLOAT_KERNELS = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul"}
EPOCHS, TUNING_EPOCHS = 25, 6


class Digits(nn.Module):
    """Four convolutions, of which two are a residual block, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(1, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48)
        self.a, self.bn_a = nn.Conv2d(48, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48)
        self.b, self.bn_b = nn.Conv2d(48, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48)
        self.c, self.bn_c = nn.Conv2d(48, 96, 3, padding=1, bias=False), nn.BatchNorm2d(96)
        self.hidden, self.head = nn.Linear(96 * 4, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn(self.stem(x)))
        y = functional.relu(self.bn_a(self.a(x)))
        x = functional.relu(self.bn_b(self.b(y)) + x)
        x = functional.max_pool2d(functional.relu(self.bn_c(self.c(x))), 4)
        scores: torch.Tensor = self.head(functional.relu(self.hidden(x.flatten(1))))
        return scores


@dataclass(frozen=True)
class Data:
    """Images and labels, of which each fifth is kept for the test."""

    images: torch.Tensor
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor

    @staticmethod
    def load() -> Data:
        digits: Any = load_digits()
        images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
        labels = torch.from_numpy(digits.target).long()
        kept = torch.arange(len(labels)) % 5 == 0
        return Data(images[~kept], labels[~kept], images[kept], labels[kept])


def train(model: nn.Module, data: Data, epochs: int, rate: float) -> nn.Module:
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        order = torch.randperm(len(data.labels))
        for start in range(0, len(order), 64):
            chosen = order[start : start + 64]
            loss = functional.cross_entropy(model(data.images[chosen]), data.labels[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
    return model.eval()


def accuracy(model: nn.Module, data: Data) -> float:
    """Per cent of the test images."""
    with torch.no_grad():
        return 100 * float((model(data.test_images).argmax(1) == data.test_labels).float().mean())


def export(model: nn.Module, data: Data, path: Path) -> Path:
    onnxport.export(model, data.images[:2], path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    return path


def session(path: Path, optimized: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def kernels(path: Path) -> set[str]:
    """The op types that ONNX Runtime really runs."""
    optimized = path.with_suffix(".optimized")
    session(path, optimized)
    return {node.op_type for node in onnx.load(optimized).graph.node}


def milliseconds(running: onnxruntime.InferenceSession, batch: int) -> float:
    """The median of many runs."""
    x, times = np.random.default_rng(0).random((batch, 1, 8, 8), np.float32), []
    for _ in range(60):
        start = time.perf_counter()
        running.run(None, {"x": x})
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times[10:]))


def measure(seed: int, data: Data, folder: Path) -> None:
    torch.manual_seed(seed)
    model = train(Digits(), data, EPOCHS, 3e-3)
    plain, floats = accuracy(model, data), session(export(model, data, folder / "float.onnx"))
    quantized = train(quant.init(model), data, TUNING_EPOCHS, 3e-4)
    path = export(quantized, data, folder / "quantized.onnx")
    running = session(path)
    with torch.no_grad():
        expected = quantized(data.test_images).argmax(1).numpy()
    same = 100 * float((running.run(None, {"x": data.test_images.numpy()})[0].argmax(1) == expected).mean())
    size = path.stat().st_size / (folder / "float.onnx").stat().st_size
    ratios = [f"{milliseconds(running, batch) / milliseconds(floats, batch):.2f}" for batch in BATCHES]
    print(
        f"seed {seed}: float {plain:.2f} %, quantized {accuracy(quantized, data):.2f} %; predictions as torch's "
        f"{same:.2f} %; size x {size:.3f}; time x {', '.join(ratios)} at batch {', '.join(map(str, BATCHES))}; "
        f"float kernels: {', '.join(sorted(FLOAT_KERNELS & kernels(path))) or 'none'}"
    )


def two_bits(data: Data, folder: Path) -> None:
    """Weights of 2 bits but for the first and last layer: trained, and only calibrated."""
    torch.manual_seed(0)
    state = train(Digits(), data, EPOCHS, 3e-3).state_dict()
    for kind in ("trained", "calibrated"):
        model = Digits()
        model.load_state_dict(state)
        quant.init(model.eval(), weight_bits=2, parts={"stem": {"weight_bits": 8}, "head": {"weight_bits": 8}})
        if kind == "trained":
            train(model, data, EPOCHS, 3e-3)
        else:
            with quant.calibration(model), torch.no_grad():
                model(data.images[:512])
        export(model, data, folder / "two.onnx")
        print(f"2-bit weights, {kind}: {accuracy(model, data):.2f} %")


def main() -> None:
    torch.set_num_threads(1)
    data = Data.load()
    with tempfile.TemporaryDirectory() as name:
        for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
            measure(seed, data, Path(name))
        two_bits(data, Path(name))


if __name__ == "__main__":
    main()
