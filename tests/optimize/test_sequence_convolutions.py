from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport


class Layers(nn.Module):
    """Convolutions over sequences, with a residual connection and activations of one and of several operators."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Conv1d(16, 32, 3, 2, 1)
        self.depthwise = nn.Conv1d(32, 32, 5, padding=2, groups=32, bias=False)
        self.norm = nn.BatchNorm1d(32)
        self.pointwise = nn.Conv1d(32, 64, 1)
        self.dilated = nn.Conv1d(64, 64, 3, padding="same", dilation=2, groups=2)
        self.norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = nn.functional.gelu(self.reduce(x))
        y = nn.functional.silu(self.norm(self.depthwise(x)))
        z = self.pointwise(x + y)
        return torch.relu(self.dilated(z) + z).mean(-1), y


AXES = {"x": {0: "batch", 2: "length"}}
SIZES = [(2, 101), (1, 7), (3, 64)]


def exported(model: nn.Module, channels: int, opset: int = 20, dynamic: bool = True, **options: Any) -> Any:
    return onnxport.export(
        model.eval(), (torch.randn(2, channels, 101),), input_names=["x"], opset_version=opset,
        dynamic_axes=AXES if dynamic else None, **options,
    )  # fmt: skip


def kernels(program: Any) -> list[int]:
    """How many axes the kernel of each convolution has."""
    graph = program.model_proto.graph
    ranks = {tensor.name: len(tensor.dims) - 2 for tensor in graph.initializer}
    return [ranks[node.input[1]] for node in graph.node if node.op_type == "Conv"]


def count(program: Any, *op_types: str) -> int:
    return sum(node.op_type in op_types for node in program.model_proto.graph.node)


def run(program: Any, model: nn.Module, channels: int, sizes: list[tuple[int, int]]) -> None:
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for batch, length in sizes:
        x = torch.randn(batch, channels, length)
        expected = model(x)
        for ours, theirs in zip(session.run(None, {"x": x.numpy()}), expected, strict=True):
            assert ours.shape == theirs.shape
            torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("opset", [12, 20, 22])
def test_a_chain_stays_an_image(opset: int, dynamic: bool) -> None:
    model = Layers()
    program = exported(model, 16, opset, dynamic)
    assert kernels(program) == [2, 2, 2, 2]
    # One view in, and one for each of the two readers that want a sequence.
    assert count(program, "Unsqueeze") == 1 and count(program, "Squeeze") == 2
    run(program, model, 16, SIZES if dynamic else SIZES[:1])


def test_the_parameters_keep_their_names() -> None:
    names = {tensor.name for tensor in exported(Layers(), 16).model_proto.graph.initializer}
    assert {"reduce.weight", "depthwise.weight", "pointwise.weight", "dilated.weight"} <= names


def test_the_pass_can_be_left_out() -> None:
    model = Layers()
    program = exported(model, 16, skip_passes=["ConvolveRows"])
    assert kernels(program) == [1, 1, 1, 1] and count(program, "Unsqueeze", "Squeeze") == 0
    run(program, model, 16, SIZES)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.Conv1d(20, 48, 3),
        lambda: nn.Conv1d(16, 20, 3),
        lambda: nn.Conv1d(16, 16, 1),
        lambda: nn.Conv1d(48, 48, 3, groups=16),
        lambda: nn.Conv1d(16, 32, 3, groups=16),
        lambda: nn.Conv1d(16, 16, 3).double(),
    ],
    ids=["20 in", "20 out", "kernel of one", "3 each", "2 for each", "double"],
)
def test_others_stay_as_they_are(layer: Callable[[], nn.Conv1d]) -> None:
    model = layer().eval()
    x = torch.randn(2, model.in_channels, 9, dtype=model.weight.dtype)
    assert kernels(onnxport.export(model, (x,))) == [1]


def test_a_shared_weight_stays_as_it_is() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(16, 16, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.conv(x), self.conv.weight.sum() + self.conv(-x)

    model = Shared()
    program = exported(model, 16)
    assert kernels(program) == [1, 1]
    run(program, model, 16, SIZES)


def test_training_keeps_the_weights() -> None:
    program = exported(Layers(), 16, training=onnxport.TrainingMode.TRAINING, verify=False)
    assert kernels(program) == [1, 1, 1, 1]
