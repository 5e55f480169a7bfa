"""Sizes in scripted code that only run time knows, and that operators need to be equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport


def pasted(x: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Each row is cut at a size that is a tensor, once before the loop and again in it."""
    found = torch.zeros([0, int(height), int(width)])
    for i in range(x.size(0)):
        found = torch.cat((found, x[i][: int(height), : int(width)].unsqueeze(0)))
    return found


def cut_and_filled(x: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """What is put together has the height because it is cut there, not because its parts add up to it."""
    found = torch.zeros(0, int(height))
    for i in range(x.size(0)):
        first = int(x[i, 0, 0].abs()) + 1
        row = torch.cat((torch.zeros(first), x[i, 0], torch.zeros(int(height))))[: int(height)]
        found = torch.cat((found, row.unsqueeze(0)))
    return found


def grouped(x: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """A reshape whose first size is read from a tensor, beside as many numbers counted from it."""
    found = torch.zeros(0, int(height))
    for i in range(x.size(0)):
        best = x[i].reshape(int(height), -1).sum(1)
        found = torch.cat((found, (best + torch.arange(int(height))).unsqueeze(0)))
    return found


def counted(x: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """A count whose end is a tensor of integers."""
    found = torch.zeros(0, int(height))
    for i in range(x.size(0)):
        found = torch.cat((found, torch.arange(height).unsqueeze(0) + x[i, 0, 0]))
    return found


class Calling(nn.Module):
    def __init__(self, script: Callable[..., Any]) -> None:
        super().__init__()
        self.script = script

    def forward(self, x: Tensor, height: Tensor, width: Tensor) -> Any:
        return self.script(x, height, width)


@pytest.mark.parametrize("inside", [False, True], ids=["scripted", "called-from-a-trace"])
@pytest.mark.parametrize("function", [pasted, cut_and_filled, grouped, counted])
def test_sizes_that_have_to_be_equal(function: Callable[..., Tensor], inside: bool) -> None:
    script = torch.jit.script(function)
    model = Calling(script) if inside else script
    example = torch.randn(3, 6, 8), torch.tensor(3), torch.tensor(5)
    program = onnxport.export(model, example, dynamic_axes={"x": {0: "n"}})
    for n, height, width in ((5, 2, 7), (1, 6, 3)):
        given = torch.randn(n, 6, 8), torch.tensor(height), torch.tensor(width)
        expected = function(*given)
        torch.testing.assert_close(program(*given), expected)
        assert expected.shape[1] == height
