"""Sizes far from those traced: a file that is wrong there is told of."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport import TraceWarning

AXES = {"x": {0: "batch", 1: "tokens"}}


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def bounded_length(x: Tensor) -> Tensor:
    return x.repeat(1, 1, min(len(x[0]), 5))


def part_of_a_cut(x: Tensor) -> Tensor:
    rest = x[:, 1:].transpose(1, 2)
    return x * (int(rest.shape[2]) // 3)


@pytest.mark.parametrize("function", [bounded_length, part_of_a_cut])
def test_sizes_of_what_was_cut_from_an_input_are_known(function: Callable[[Tensor], Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        program = onnxport.export(Model(function), torch.randn(2, 33, 3), input_names=["x"], dynamic_axes=AXES)
    for tokens in (1, 2, 3, 4, 5, 6, 8, 90):
        x = torch.randn(3, tokens, 3)
        torch.testing.assert_close(torch.as_tensor(program(x)), function(x))


def steps(x: Tensor) -> Tensor:
    """A number that is 2 up to a size far from the example's, which no expression of sizes is."""
    levels = 2 + int(math.log2(max(int(x.shape[1]) / 64, 1)))
    return x * levels


def test_a_size_at_which_the_file_is_wrong_is_told_of() -> None:
    with pytest.warns(TraceWarning, match=r"tokens=\d+ the file does not compute what the model computes"):
        program = onnxport.export(Model(steps), torch.randn(2, 12, 3), input_names=["x"], dynamic_axes=AXES)
    assert program.verification.passed
    assert any("the file does not compute" in message for message in program.report.warnings)


def test_a_range_without_such_sizes_is_not_told_of() -> None:
    tokens = torch.export.Dim("tokens", min=2, max=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        program = onnxport.export(
            Model(steps), torch.randn(2, 12, 3), input_names=["x"], dynamic_shapes={"x": {1: tokens}}
        )
    assert all(case.sizes["tokens"] <= 100 for case in program.verification.cases)
