"""Norms that models write themselves: in the form that ONNX Runtime makes one kernel of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport

INVERSE_ROOTS = {"rsqrt": torch.rsqrt, "a power": lambda x: x.pow(-0.5)}


class Norm(nn.Module):
    def __init__(self, inverse_root: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(16) + 0.5)
        self.inverse_root = inverse_root

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * self.inverse_root(x.pow(2).mean(-1, keepdim=True) + 1e-6))


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("name", INVERSE_ROOTS)
def test_a_norm_by_the_mean_square_is_one_kernel(name: str, opset: int, tmp_path: Path) -> None:
    axes = {"x": {0: "batch", 1: "time"}}
    file = tmp_path / "norm.onnx"
    onnxport.export(
        Norm(INVERSE_ROOTS[name]),
        torch.randn(2, 3, 16),
        file,
        input_names=["x"],
        dynamic_axes=axes,
        opset_version=opset,
    )
    assert kernels(file) == ["SimplifiedLayerNormalization"]


def kernels(file: Path) -> list[str]:
    """The operators that ONNX Runtime really runs."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(file.with_suffix(".optimized.onnx"))
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
