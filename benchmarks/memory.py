"""The memory that an export takes beyond the model itself, its check included, and what torch's exporter takes.

    python -m benchmarks.memory [--gigabytes 1.5]

Each export has a process of its own and writes into a folder that is removed afterwards. Counted is the peak of the
memory that belongs to the process alone; the pages of mapped files, which the system can take back, do not count. The
exit code is 1 where an export takes more than a tenth of the weights and 100 MB, or is not checked.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

import onnxport

FREE = 100e6
SHARE = 0.1
INTERVAL = 0.005
PEER = "dynamo=False"


def limit(weights: int) -> float:
    """The most that an export may take."""
    return FREE + SHARE * weights


def own_memory() -> int:
    """The bytes of this process that no file holds."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@contextmanager
def peak() -> Iterator[list[int]]:
    """The memory at the start and the most that was seen until the end."""
    seen = [own_memory()] * 2
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen[1] = max(seen[1], own_memory())
            time.sleep(INTERVAL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


class Sequences(nn.Module):
    """Layers of a transformer, whose products with weights are of three dimensions."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def linear(gigabytes: float) -> tuple[nn.Module, torch.Tensor]:
    count = max(1, round(gigabytes * 1e9 / (4 * 4096 * 4096)))
    return nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(count))), torch.randn(2, 4096)


def transformer(gigabytes: float) -> tuple[nn.Module, torch.Tensor]:
    return Sequences(max(1, round(gigabytes * 1e9 / (4 * 12 * 2048 * 2048)))), torch.randn(2, 8, 2048)


def convolutional(gigabytes: float) -> tuple[nn.Module, torch.Tensor]:
    count = max(1, round(gigabytes * 1e9 / (4 * 9 * 1024 * 1024)))
    layers = (nn.Sequential(nn.Conv2d(1024, 1024, 3, padding=1), nn.ReLU()) for _ in range(count))
    return nn.Sequential(*layers), torch.randn(2, 1024, 6, 6)


MODELS: dict[str, Callable[[float], tuple[nn.Module, torch.Tensor]]] = {
    "linear": linear,
    "transformer": transformer,
    "convolutional": convolutional,
}


def large_model(kind: str, gigabytes: float) -> tuple[nn.Module, torch.Tensor]:
    """A model whose weights are really there: memory that was never written to takes none."""
    with torch.device("meta"):
        model, _ = MODELS[kind](gigabytes)
    x = MODELS[kind](0)[1]
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1).div_(parameter[0].numel() ** 0.5)
    return model, x


def measure(kind: str, exporter: str, gigabytes: float) -> dict[str, object]:
    """One export, in this process."""
    warnings.simplefilter("ignore")
    axes = {"x": {0: "n"}}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.onnx")

        def export(model: nn.Module, x: torch.Tensor) -> str | None:
            if exporter == PEER:
                torch.onnx.export(
                    model, (x,), str(path), dynamo=False, input_names=["x"], dynamic_axes=axes, opset_version=20
                )
                return None
            return str(onnxport.export(model, x, path, input_names=["x"], dynamic_axes=axes).verification)

        export(nn.Linear(2, 2), torch.randn(2, 2))  # what happens once in a process
        model, x = large_model(kind, gigabytes)
        weights = sum(parameter.nbytes for parameter in model.parameters())
        with peak() as seen:
            said = export(model, x)
    return {"weights": weights, "beyond": seen[1] - seen[0], "said": said}


def in_a_process(kind: str, exporter: str, gigabytes: float) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.memory", "--one", kind, exporter, "--gigabytes", str(gigabytes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the memory that an export takes.")
    parser.add_argument("--gigabytes", type=float, default=1.5)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "EXPORTER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, exporter = options.one
        print(json.dumps(measure(kind, exporter, options.gigabytes)))
        return 0
    bad = 0
    print(f"{'model':14}{'weights':>10}{'onnxport':>10}{'allowed':>10}{PEER:>14}   MB beyond the model")
    for kind in MODELS:
        ours, theirs = (in_a_process(kind, name, options.gigabytes) for name in ("onnxport", PEER))
        weights, beyond, other = int(str(ours["weights"])), int(str(ours["beyond"])), int(str(theirs["beyond"]))
        checked = str(ours["said"]).startswith("at ")
        bad += beyond > limit(weights) or not checked
        columns = "".join(f"{value / 1e6:10.0f}" for value in (weights, beyond, limit(weights)))
        print(f"{kind:14}{columns}{other / 1e6:14.0f}   {str(ours['said']).splitlines()[-1]}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
