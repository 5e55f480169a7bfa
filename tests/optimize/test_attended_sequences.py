from __future__ import annotations

import collections
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport

AXES = {"x": {0: "batch", 1: "length"}, "mask": {0: "batch", 2: "length", 3: "length"}}
SIZES = [(2, 5), (3, 1), (1, 8)]


class Attention(nn.Module):
    """Three projections, of as many heads as asked for."""

    def __init__(self, heads: int = 4, groups: int = 4, width: int = 8) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width
        self.query, self.key, self.value = (nn.Linear(24, count * width) for count in (heads, groups, groups))

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.width).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        parts = (self.split(self.query(x), self.heads), self.split(self.key(x), self.groups))
        value = self.split(self.value(x), self.groups)
        gqa = self.heads != self.groups
        y = nn.functional.scaled_dot_product_attention(*parts, value, mask, enable_gqa=gqa, scale=0.3)
        return y.transpose(1, 2).reshape(x.shape[0], -1, self.heads * self.width)


class Joined(nn.Module):
    """One projection; which part is the query is the argument's choice."""

    def __init__(self, order: tuple[int, int, int] = (0, 1, 2)) -> None:
        super().__init__()
        self.order, self.qkv = order, nn.Linear(24, 3 * 32)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        parts = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, 4, 8).permute(2, 0, 3, 1, 4)
        q, k, v = (parts[index] for index in self.order)
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return y.transpose(1, 2).flatten(2)


class Kept(Attention):
    """The heads of the result are read as they are."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.split(layer(x), 4) for layer in (self.query, self.key, self.value))
        return nn.functional.scaled_dot_product_attention(q, k, v, mask)


class Turned(Attention):
    """The query is changed head by head."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.split(layer(x), 4) for layer in (self.query, self.key, self.value))
        return nn.functional.scaled_dot_product_attention(q.flip(-1) * 2, k, v, mask).transpose(1, 2).flatten(2)


class Swapped(Attention):
    """Heads and widths change places: another order of the same elements."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.split(layer(x), 4) for layer in (self.query, self.key, self.value))
        return nn.functional.scaled_dot_product_attention(q, k, v, mask).permute(0, 2, 3, 1).flatten(2)


def inputs(batch: int, length: int) -> tuple[Tensor, Tensor]:
    mask = torch.rand(batch, 1, length, length) > 0.4
    return torch.randn(batch, length, 24), mask | torch.eye(length, dtype=torch.bool)


def exported(model: nn.Module, opset: int = 23, dynamic: bool = True, **options: Any) -> Any:
    axes = AXES if dynamic else None
    return onnxport.export(
        model.eval(), inputs(2, 5), input_names=["x", "mask"], dynamic_axes=axes, opset_version=opset, **options
    )


def operators(program: Any) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in program.model_proto.graph.node)


def run(program: Any, model: nn.Module, sizes: list[tuple[int, int]]) -> None:
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for size in sizes:
        x, mask = inputs(*size)
        (result,) = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
        with torch.no_grad():
            expected = model(x, mask)
        assert result.dtype == expected.numpy().dtype and result.shape == expected.shape
        torch.testing.assert_close(torch.from_numpy(result), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("model", [Attention(), Attention(6, 2), Joined(), Joined((2, 0, 1))])
def test_heads_are_not_transposed(model: nn.Module, opset: int, dynamic: bool) -> None:
    program = exported(model, opset, dynamic)
    found = operators(program)
    assert found["Attention"] == 1 and found["Transpose"] == found["Reshape"] == found["Gather"] == 0
    assert found["Split"] == isinstance(model, Joined)
    run(program, model, SIZES if dynamic else SIZES[:1])


@pytest.mark.parametrize("model", [Kept(), Turned(), Swapped()], ids=lambda model: type(model).__name__)
def test_what_is_no_sequence_stays(model: nn.Module) -> None:
    program = exported(model)
    assert operators(program)["Transpose"] >= 3
    run(program, model, SIZES)


def test_the_pass_can_be_left_out() -> None:
    model = Attention()
    program = exported(model, skip_passes=["AttendSequences"])
    assert operators(program)["Transpose"] == 4
    run(program, model, SIZES)
