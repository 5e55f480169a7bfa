"""The memory that a recorded run of a model takes, against a plain run of it.

    python -m benchmarks.recorded_memory [--rows 200000]

Each runs in a process of its own. Prints the peaks above what the process had before the run; a record that keeps
activations alive would take many times that of a plain run. The exit code is 1 above 1.1 times.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import torch
from torch import nn

from onnxport.capture.record.recorder import Recorder

AT_MOST = 1.1
WIDTH, LAYERS = 64, 30
KINDS = ("plain", "recorded")


class Layers(nn.Module):
    """Layers with activations, views, writes through them, and constants that are made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            hidden = torch.relu(layer(x))
            hidden.view(hidden.shape[0] // 2, 2, WIDTH)[:, 0].mul_(0.5)
            x = x + self.norm(hidden) * 0.1
            if index % 3 == 0:
                x = x + torch.arange(WIDTH) / WIDTH
        return x


def peak() -> float:
    """The most memory that this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.no_grad()
def run(kind: str, rows: int) -> None:
    """Print by how much a run of one kind raises the peak of this process."""
    model, x = Layers().eval(), torch.randn(rows, WIDTH)
    model(x[:2])
    before = peak()
    if kind == "plain":
        model(x)
    else:
        recorder = Recorder(lambda written: None)
        recorder.record.inputs.append(recorder.values.new(x))
        with recorder.recording():
            model(x)
    print(peak() - before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.kind:
        run(given.kind, given.rows)
        return 0
    peaks = {}
    for kind in KINDS:
        command = [sys.executable, "-m", "benchmarks.recorded_memory", "--kind", kind, "--rows", str(given.rows)]
        peaks[kind] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{kind:8}  {peaks[kind]:6.0f} MiB")
    ratio = peaks["recorded"] / peaks["plain"]
    print(f"recorded / plain: {ratio:.2f} (at most {AT_MOST})")
    return int(ratio > AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
