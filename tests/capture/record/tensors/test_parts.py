"""Tensors that are taken apart along a dynamic axis and joined again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport


def listed(x: Tensor) -> Tensor:
    return torch.cat(list(x * 2), dim=0)


def joined_behind(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(0), dim=-1)


def stacked_behind(x: Tensor) -> Tensor:
    return torch.stack([part for part in x], -1)  # noqa: C416


def of_the_middle(x: Tensor) -> Tensor:
    return torch.stack(x.unbind(dim=1), dim=0)


def written_later(x: Tensor) -> Tensor:
    parts = (x * 1).unbind(0)
    whole = torch.stack(parts)
    whole.add_(1)
    return torch.cat(parts) + whole.flatten(0, 1)


@pytest.mark.parametrize("function", [listed, joined_behind, stacked_behind, of_the_middle, written_later])
def test_the_number_of_parts_follows_the_axis(function: Callable[[Tensor], Tensor]) -> None:
    axes = {"x": {0: "n", 1: "m"}}
    program = onnxport.export(function, torch.randn(3, 4, 5), input_names=["x"], dynamic_axes=axes)
    for shape in ((1, 2, 5), (6, 7, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), function(x))


def test_parts_in_another_order_are_not_the_whole() -> None:
    def turned(x: Tensor) -> Tensor:
        first, second = x.unbind(0)
        return torch.stack([second, first])

    program = onnxport.export(turned, torch.randn(2, 3))
    x = torch.randn(2, 3)
    torch.testing.assert_close(program(x), turned(x))


def test_parts_that_are_changed_one_by_one() -> None:
    def changed(x: Tensor) -> Tensor:
        return torch.stack([part * 2 for part in x])

    program = onnxport.export(changed, torch.randn(2, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 3, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), changed(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.split(2)[1],
        lambda x: x.split(2)[-1],
        lambda x: x.split(2)[-2] * 2,
        lambda x: torch.cat([x.split(3)[0], x.split(2)[1]]),
        lambda x: x.unbind(0)[2],
        lambda x: x.unbind()[-1],
        lambda x: list(x)[3] - 1,
    ],
)
def test_some_parts_of_as_many_as_the_axis_has(function: Callable[[Tensor], Tensor]) -> None:
    program = onnxport.export(function, torch.randn(6, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (4, 5, 8, 21):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), function(x))


def test_all_parts_of_as_many_as_the_axis_has_are_a_loop() -> None:
    def model(x: Tensor) -> Tensor:
        total = torch.zeros(3)
        for part in x.split(2):
            total = total + part.sum(0)
        return total

    line = model.__code__.co_firstlineno + 2
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_parts\.py:{line}, in \S+: .*the number of parts"):
        onnxport.export(model, torch.randn(6, 3), dynamic_axes={"x": {0: "n"}})
