"""An example at a size that the model treats as a special case, as the one that it was made for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import onnxport


class Positions(nn.Module):
    """Resizes its table of positions, except where it fits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 3, 8, 8))

    def forward(self, x: torch.Tensor) -> Any:
        if x.shape[2:] == self.table.shape[2:]:
            return x + self.table
        return x + nn.functional.interpolate(self.table, size=x.shape[2:], mode="bilinear")


@pytest.mark.parametrize("axes", [{0: "n", 2: "h", 3: "w"}, {2: "s", 3: "s"}], ids=["three", "one"])
def test_the_general_case_is_exported_where_it_agrees_with_the_special_one(axes: dict[int, str]) -> None:
    model = Positions()
    program = onnxport.export(model, torch.randn(2, 3, 8, 8), dynamic_axes={"x": axes})
    checked = [case.sizes for case in program.verification.cases]
    assert {name: 8 if name in "hws" else 2 for name in set(axes.values())} in checked
    for size in (8, 11, 5):
        x = torch.randn(2, 3, size, size)
        torch.testing.assert_close(program(x), model(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("axes", [{0: "n", 1: "t"}, {1: "t"}], ids=["two", "one"])
def test_a_special_case_that_computes_something_else_is_a_branch(axes: dict[int, str]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) if x.shape[1] == 8 else x.mean(1)

    program = onnxport.export(model, torch.randn(2, 8), dynamic_axes={"x": axes})
    for t in (1, 7, 8, 9, 16):
        x = torch.randn(2, t)
        torch.testing.assert_close(program(x), model(x))


def test_sizes_that_are_odd_after_some_halvings() -> None:

    def model(x: torch.Tensor) -> torch.Tensor:
        kept = []
        for _ in range(3):
            kept.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        for skip in reversed(kept):
            x = nn.functional.interpolate(x, scale_factor=2.0)
            high, wide = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = skip + nn.functional.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
        return x

    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    program = onnxport.export(model, torch.randn(2, 3, 24, 32), dynamic_axes=axes)
    for size in ((26, 26), (27, 22), (13, 45)):
        x = torch.randn(1, 3, *size)
        torch.testing.assert_close(program(x), model(x))
