"""Many layers and large weights: work that grows with the depth, and memory that does not grow with the weights."""

from __future__ import annotations

import cProfile
import io
import pathlib
import pstats

import pytest
import torch
from torch import nn

import onnxport
from benchmarks.depth import Residual
from benchmarks.memory import MODELS, large_model, limit, peak


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


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("external", [False, True])
def test_an_export_and_its_check_copy_no_weights(kind: str, tmp_path: pathlib.Path, *, external: bool) -> None:
    """In one file or two; whether products have two dimensions or three, and for convolutions."""
    model, x = large_model(kind, 0.27)
    weights = sum(parameter.nbytes for parameter in model.parameters())
    with peak() as seen:
        program = onnxport.export(model, x, tmp_path / "model.onnx", external_data=external)
    assert program.verification.passed
    assert len(list(tmp_path.iterdir())) == 1 + external
    assert seen[1] - seen[0] < limit(weights) < weights


def test_branches_nested_more_deeply_than_protobuf_reads_are_an_error() -> None:
    class Model(nn.Module):
        def nested(self, x: torch.Tensor, depth: int) -> torch.Tensor:
            if depth == 0:
                return x
            return torch.cond(x.sum() > depth, lambda y: self.nested(y, depth - 1), lambda y: y + 1, (x,))  # type: ignore[no-any-return]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.nested(x, 40)

    with pytest.raises(onnxport.NotYetSupportedError, match="nested too deeply"):
        onnxport.export(Model(), torch.randn(2, 3), io.BytesIO())
