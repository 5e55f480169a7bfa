"""Models to quantize, and what ONNX Runtime runs of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

FLOAT_KERNELS = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul", "BatchNormalization"}


class Blocks(nn.Module):
    """A residual block with norms, an in-place sum, a pool, a concatenation and a product of two branches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.left = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.gate = nn.Conv2d(8, 8, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.left(x)
        y += x
        y = F.relu(y) * self.gate(x)
        joined = torch.cat([self.pool(y), self.pool(x)], 1).flatten(1)
        return self.head(joined)


def trained(model: nn.Module, *shape: int, steps: int = 5, rate: float = 1e-2) -> nn.Module:
    """A model after some steps of training, in evaluation mode."""
    torch.manual_seed(0)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for _ in range(steps):
        loss = model(torch.randn(*shape)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def kernels(path: Path, *, int8: bool = False) -> list[str]:
    """The op types that ONNX Runtime really runs; with ``int8`` those of processors whose kernels take int8 inputs."""
    options = onnxruntime.SessionOptions()
    if int8:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.optimized_model_filepath = str(path.with_suffix(".optimized"))
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]


def run(path: Path, *inputs: torch.Tensor) -> list[torch.Tensor]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds: dict[str, Any] = {
        entry.name: x.detach().numpy() for entry, x in zip(session.get_inputs(), inputs, strict=True)
    }
    return [torch.from_numpy(output) for output in session.run(None, feeds)]


def run_as_written(path: Path, x: torch.Tensor) -> torch.Tensor:
    """The result without ONNX Runtime's kernels for integers, which round inputs and choose otherwise at boundaries."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def stored_types(path: Path) -> set[int]:
    """The element types of initializers that are matrices."""
    return {tensor.data_type for tensor in onnx.load(path).graph.initializer if len(tensor.dims) > 1}
