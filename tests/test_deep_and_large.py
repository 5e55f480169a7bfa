"""Many layers and large weights: work that grows with the depth, and memory that does not grow with the weights."""

from __future__ import annotations

import cProfile
import pathlib
import pstats

import torch
from torch import nn

import onnxport
from benchmarks.depth import Residual
from benchmarks.memory import WIDTH, large_model, peak


def calls(depth: int) -> int:
    """How many functions an export of so many layers calls."""
    model = nn.Sequential(*(Residual() for _ in range(depth))).eval()
    profile = cProfile.Profile()
    profile.runcall(onnxport.export, model, torch.randn(2, 8), dynamic_axes={"input": {0: "n"}})
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_work_is_linear_in_depth() -> None:
    calls(2)
    few, more, most = calls(20), calls(40), calls(80)
    assert most - more <= 2.2 * (more - few)


def test_weights_in_a_file_of_their_own_are_not_copied(tmp_path: pathlib.Path) -> None:
    model, x = large_model(0.27), torch.randn(2, WIDTH)
    with peak() as seen:
        program = onnxport.export(model, x, tmp_path / "model.onnx", use_external_data_format=True)
    assert program.verification.passed
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert seen[1] - seen[0] < 100e6
