"""How the time of an export grows with the depth of the model.

    python -m benchmarks.depth

Prints the CPU seconds of the export of a model of so many layers, and what the check adds: nearly all of it is ONNX
Runtime, which loads the file in a time that grows faster than the number of nodes. The exit code is 1 where a layer of
the deepest model takes longer to export, by one of the first model, than is allowed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import onnxport

DEPTHS = (512, 1024, 2048, 4096)
# Of so many exports the fastest counts: others share the machine.
REPEATS = 2
GROWTH_AT_MOST = 1.15


class Residual(nn.Module):
    """One small layer."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * torch.relu(self.layer(self.norm(x)))


def cpu_seconds(function: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def measure(depth: int) -> tuple[float, float]:
    """The time to export a model of so many layers with a dynamic axis, without the check of the file and with it."""
    torch.manual_seed(0)
    model, axes = nn.Sequential(*(Residual() for _ in range(depth))).eval(), {"input": {0: "n"}}
    x = torch.randn(2, 8)
    unchecked = cpu_seconds(lambda: onnxport.export(model, x, dynamic_axes=axes, verify=False))
    return unchecked, cpu_seconds(lambda: onnxport.export(model, x, dynamic_axes=axes))


def main() -> int:
    onnxport.export(Residual().eval(), torch.randn(2, 8))  # what happens once in a process
    each = {}
    for depth in DEPTHS:
        unchecked, checked = measure(depth)
        each[depth] = 1000 * unchecked / depth
        check = f"{checked - unchecked:.2f} s for the check"
        print(f"{depth:6} layers {unchecked:7.2f} s, {each[depth]:.2f} ms for each; {check}", flush=True)
    growth = each[DEPTHS[-1]] / each[DEPTHS[0]]
    print(f"a layer takes {growth:.2f} times as long in the deepest model (at most {GROWTH_AT_MOST})")
    return int(growth > GROWTH_AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
