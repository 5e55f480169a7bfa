"""How the time of an export grows with the depth of the model.

    python -m benchmarks.depth

Prints the seconds for each depth and, for the last against the first, the ratio of the times beside that of the depths:
in an export that is linear in depth the first is not above the second.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

import onnxport

DEPTHS = (500, 2000)
# Of so many exports the fastest counts: others share the machine.
REPEATS = 2


class Residual(nn.Module):
    """One small layer."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * torch.relu(self.layer(self.norm(x)))


def seconds(depth: int) -> float:
    """The time to export a model of so many layers, with a dynamic axis and with the check of the file."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual() for _ in range(depth))).eval()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        onnxport.export(model, torch.randn(2, 8), dynamic_axes={"input": {0: "n"}})
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    onnxport.export(Residual().eval(), torch.randn(2, 8))  # what happens once in a process
    times = {depth: seconds(depth) for depth in DEPTHS}
    for depth, took in times.items():
        print(f"{depth:6} layers  {took:7.2f} s  {1000 * took / depth:6.2f} ms for each")
    deeper, longer = DEPTHS[-1] / DEPTHS[0], times[DEPTHS[-1]] / times[DEPTHS[0]]
    print(f"{deeper:.1f} times the depth takes {longer:.1f} times the time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
