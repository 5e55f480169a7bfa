from __future__ import annotations

import collections

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport


class Block(nn.Module):
    """A block that embeds the time for itself, sine behind cosine, as diffusion transformers have it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        frequencies = torch.exp(-torch.arange(4, dtype=torch.float32) / 4)
        angles = time[:, None] * frequencies[None]
        embedded = torch.cat([angles.sin(), angles.cos()], -1)
        flipped = torch.cat([embedded[:, 4:], embedded[:, :4]], -1)
        return x + self.linear(flipped)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, time)
        return x


class Scaled(nn.Module):
    """Two weights that are equal by accident, from each of which the file has something computed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.first.exp() + torch.relu(x) * self.second.exp()


def result(program: onnxport.Program, *inputs: Tensor) -> Tensor:
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {entry.name: value.numpy() for entry, value in zip(session.get_inputs(), inputs, strict=True)}
    return torch.from_numpy(session.run(None, feeds)[0])


def test_what_each_layer_computes_alike_is_there_once() -> None:
    model = Blocks().eval()
    axes = {"x": {0: "batch"}, "time": {0: "batch"}}
    program = onnxport.export(
        model, (torch.randn(2, 8), torch.rand(2)), input_names=["x", "time"], dynamic_axes=axes
    )  # fmt: skip
    count = collections.Counter(node.op_type for node in program.model_proto.graph.node)
    assert count == {"Unsqueeze": 1, "Mul": 1, "Sin": 1, "Cos": 1, "Concat": 1, "Gemm": 3, "Add": 3}
    inputs = torch.randn(5, 8), torch.rand(5) * 9
    torch.testing.assert_close(result(program, *inputs), model(*inputs))


@pytest.mark.parametrize("changed", ["first", "second"])
def test_equal_weights_can_still_be_told_apart(changed: str) -> None:
    model, other = Scaled(), Scaled()
    getattr(other, changed).data.mul_(2)
    x = torch.randn(2, 6)
    program = onnxport.export(model, (x,))
    torch.testing.assert_close(result(program, x), model(x).detach())
    try:
        program.apply_weights(other.state_dict())
    except onnxport.errors.OptionError:
        return
    torch.testing.assert_close(result(program, x), other(x).detach())
