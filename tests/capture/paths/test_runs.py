"""How often a model runs to be captured with dynamic axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport


def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x]).view(x.shape[0] * 2, -1)


def scaled_from_five_on(x: torch.Tensor) -> torch.Tensor:
    return x * (3 if x.shape[0] > 4 else 2)


def scaled_by_two_conditions(x: torch.Tensor) -> torch.Tensor:
    return x * (3 if x.shape[0] > 4 else 2) + (5 if x.shape[1] > 9 else 7)


def cut(x: torch.Tensor) -> torch.Tensor:
    return x[: min(x.shape[0], 5)]


@pytest.mark.parametrize(
    ("model", "runs"),
    [
        (doubled, 1),
        # For each condition one that tells whether the model takes twice the size, and one on the other side.
        (scaled_from_five_on, 3),
        # Of two conditions each combination is a path of its own.
        (scaled_by_two_conditions, 6),
        # A built-in function compares: the second run follows it.
        (cut, 2),
    ],
)
def test_number_of_runs(model: Callable[..., Any], runs: int) -> None:
    count = 0

    def counted(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        result: torch.Tensor = model(x)
        return result

    example = torch.randn(4, 6)
    axes = {"x": {0: "n", 1: "m"}}
    program = onnxport.export(counted, (example,), input_names=["x"], dynamic_axes=axes, verify=False)
    assert count == runs
    for shape in ((2, 4), (3, 12), (6, 8), (9, 10)):
        given = torch.randn(shape)
        torch.testing.assert_close(program(given), model(given))
