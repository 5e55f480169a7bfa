"""Models that take a row of tokens for a square grid, whose side Python computes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import onnxport


class Power(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, count, channels = x.shape
        side = int(count**0.5)
        return x.transpose(1, 2).reshape(batch, channels, side, side)


class Root(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = int(math.sqrt(x.shape[1]))
        return x.view(x.shape[0], side, side, -1).permute(0, 3, 1, 2).mean((2, 3))


class Whole(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = math.isqrt(x.shape[1])
        return x.unflatten(1, (side, x.shape[1] // side)).flip(1)


class Rounded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = int(x.shape[1] ** 0.5 + 0.5)
        return x.reshape(x.shape[0], side // 2, 2, side // 2, 2, x.shape[2]).transpose(2, 3).flatten(3)


class Token(nn.Module):
    """One token stands before those of the grid."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, rest = x[:, :1], x[:, 1:]
        side = int(rest.shape[1] ** 0.5)
        grid = rest.transpose(1, 2).reshape(x.shape[0], -1, side, side)
        return torch.cat([first, nn.functional.avg_pool2d(grid, 3, 1, 1).flatten(2).transpose(1, 2)], 1)


class Padded(nn.Module):
    """Any number of tokens in the smallest square that holds them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side = math.ceil(math.sqrt(x.shape[1]))
        padded = nn.functional.pad(x, (0, 0, 0, side * side - x.shape[1]))
        return padded.reshape(x.shape[0], side, side, -1)


SIDES: list[tuple[Callable[[], nn.Module], int, list[int]]] = [
    (Power, 16, [9, 36, 100, 10_000]),
    (Root, 49, [4, 64, 400]),
    (Whole, 25, [9, 36, 144]),
    (Rounded, 64, [16, 36, 256]),
    (Token, 197, [10, 50, 785]),
    (Padded, 10, [9, 2, 17, 99, 100]),
]


@pytest.mark.parametrize(("model", "example", "others"), SIDES, ids=[row[0].__name__ for row in SIDES])
def test_a_grid_follows_the_tokens(model: Callable[[], nn.Module], example: int, others: list[int]) -> None:
    program = onnxport.export(
        model(), torch.randn(2, example, 3), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "tokens"}}
    )
    for batch, tokens in zip((1, 3, 4, 2, 5), others, strict=False):
        x = torch.randn(batch, tokens, 3)
        expected, found = model()(x), program(x)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_side_is_named() -> None:
    program = onnxport.export(
        Power(),
        torch.randn(2, 16, 3),
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {0: "batch", 1: "tokens"}},
    )
    shape = program.model_proto.graph.output[0].type.tensor_type.shape
    assert [dim.dim_param or dim.dim_value for dim in shape.dim] == ["batch", 3, "isqrt(tokens)", "isqrt(tokens)"]


class Short(nn.Module):
    """A row that is too short takes another path, and a number comes from somewhere that the source does not show."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = sum(1 for _ in x[0])
        if count < 7:
            return x.flip(1) + 1
        return x[:, : count // 3 + 1]


def test_another_path_at_a_small_size_is_an_error_unless_the_range_leaves_it_out() -> None:
    with pytest.raises(onnxport.VerificationError, match="n=1"):
        onnxport.export(Short(), torch.randn(2, 20, 3), input_names=["x"], dynamic_axes={"x": {1: "n"}})
    program = onnxport.export(Short(), torch.randn(2, 20, 3), dynamic_shapes={"x": {1: torch.export.Dim("n", min=7)}})
    for count in (7, 8, 30, 61):
        x = torch.randn(2, count, 3)
        np.testing.assert_allclose(program(x), Short()(x))
