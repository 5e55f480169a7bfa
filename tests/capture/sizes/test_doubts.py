"""Sizes that the model compares or cuts at: traced on both sides, so that the file is right on both, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxport


def cut_at_ten(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(x[:10].shape[0]).sum()


def last_ten(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(x[-10:].shape[0]).sum()


def first_three(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(x[:3].shape[0]).sum()


def eighths(x: torch.Tensor) -> torch.Tensor:
    return x + x.shape[0] // 8


def clamped(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor(1) * torch.clamp(torch._shape_as_tensor(x)[0], max=10)


@pytest.mark.parametrize("function", [cut_at_ten, last_ten, first_three, eighths, clamped])
def test_a_cut_far_from_the_example_is_found(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = onnxport.export(function, torch.randn(3, 2), dynamic_axes={"x": {0: "n"}})
    for n in (1, 9, 10, 20):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program(x), function(x))


def cut_at_other_axis(x: torch.Tensor) -> torch.Tensor:
    x[:, : x.shape[0]] = 0
    return x + torch.ones(x[:, : x.shape[0]].shape[1]).sum()


def diagonal(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(torch.diagonal(x).shape[0]).sum()


@pytest.mark.parametrize("function", [cut_at_other_axis, diagonal])
def test_axes_are_tried_in_either_order(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = onnxport.export(function, torch.randn(4, 7), dynamic_axes={"x": {0: "a", 1: "b"}})
    for shape in ((2, 9), (9, 2), (5, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), function(x.clone()))


def above(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] > 100 else x - 1


def at_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] == 1 else x - 1


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("function", [above, at_one])
def test_a_condition_that_turns_at_another_size_is_followed(
    function: Callable[[torch.Tensor], torch.Tensor], size: int
) -> None:
    program = onnxport.export(function, torch.randn(size, 2), dynamic_axes={"x": {0: "n"}}, verify=False)
    for n in (1, 2, 3, 100, 101):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program(x), function(x))


def at_one_otherwise(x: torch.Tensor) -> torch.Tensor:
    """With another dtype."""
    return x.double() if x.shape[0] == 1 else x - 1


def test_a_condition_that_turns_at_one_leaves_out_that_size() -> None:
    line = at_one_otherwise.__code__.co_firstlineno + 2
    with pytest.warns(onnxport.TraceWarning, match=rf"test_doubts.py:{line}, in .*The file serves n >= 2"):
        program = onnxport.export(at_one_otherwise, torch.randn(4, 2), dynamic_axes={"x": {0: "n"}})
    for n in (2, 3, 50):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program(x), at_one_otherwise(x))
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_doubts.py:{line}, in "):
        onnxport.export(at_one_otherwise, torch.randn(1, 2), dynamic_axes={"x": {0: "n"}})


def test_the_shorter_axis_of_two_is_followed() -> None:
    def shorter(x: torch.Tensor) -> torch.Tensor:
        return torch.ones(min(x.shape[0], x.shape[1]))

    program = onnxport.export(shorter, torch.randn(4, 7), dynamic_axes={"x": {0: "a", 1: "b"}})
    for x in (torch.randn(8, 3), torch.randn(2, 9), torch.randn(5, 5)):
        torch.testing.assert_close(program(x), shorter(x))


def test_a_shorter_axis_that_is_chosen_by_a_condition_is_followed() -> None:
    def shorter(x: torch.Tensor) -> torch.Tensor:
        return torch.ones(x.shape[0] if x.shape[0] < x.shape[1] else x.shape[1])

    program = onnxport.export(shorter, torch.randn(4, 7), dynamic_axes={"x": {0: "a", 1: "b"}})
    for shape in ((8, 3), (2, 9), (5, 5)):
        torch.testing.assert_close(program(torch.randn(shape)), shorter(torch.randn(shape)))


def test_a_size_that_the_model_refuses_leaves_no_doubt() -> None:
    def guarded(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 16:
            raise ValueError("at most 16")
        return x + 1

    program = onnxport.export(guarded, torch.randn(4, 2), dynamic_axes={"x": {0: "n"}})
    assert program.verification.passed


def test_other_results_at_another_size_are_followed() -> None:
    def swapped(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = x + 1, x - 1
        return (left, right) if int(x.shape[0]) > 5 else (right, left)

    program = onnxport.export(swapped, torch.randn(4, 2), dynamic_axes={"x": {0: "n"}}, verify=False)
    for n in (1, 5, 6, 20):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program(x), swapped(x))
