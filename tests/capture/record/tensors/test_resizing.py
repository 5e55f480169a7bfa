"""``resize_``: other sizes in the memory that a tensor has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport


def fewer(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).resize_(3, 2) + 1


def by_size(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y.resize_(y.shape[0] * 2, 2)


def shared(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 1
    row = y[0]
    y.resize_(3, 2)
    y[0, 0] = 7
    return y, row


def there_and_back(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.resize_(2)
    return y.resize_(2, 4)


def from_nothing(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(0)
    y.resize_(x.shape)
    y.copy_(x)
    return y * 2


def as_another(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).resize_as_(x[:1])


def transposed(x: torch.Tensor) -> torch.Tensor:
    return (x * 1).t().resize_(2, 3)


def as_result(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, 1, out=torch.empty(0))


STATIC = [fewer, by_size, shared, there_and_back, from_nothing, as_another, transposed, as_result]
DYNAMIC = [fewer, by_size, shared, from_nothing, as_another, as_result]


def check(function: Callable[..., Any], rows: tuple[int, ...], axes: dict[str, dict[int, str]]) -> None:
    program = onnxport.export(function, torch.randn(2, 4), input_names=["x"], dynamic_axes=axes)
    for n in rows:
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("function", STATIC)
def test_a_tensor_of_other_sizes(function: Callable[..., Any]) -> None:
    check(function, (2, 2), {})


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("function", DYNAMIC)
def test_at_every_size_of_an_axis(function: Callable[..., Any]) -> None:
    check(function, (3, 9), {"x": {0: "n"}})
