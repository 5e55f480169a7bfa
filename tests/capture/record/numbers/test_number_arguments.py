"""Numbers among the arguments of a call that are equal in the example, and differ elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nnf

import onnxport


def test_a_tensor_as_a_size_beside_an_equal_number() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        rows = torch.div(x.shape[1], 4, rounding_mode="trunc") - 1
        return x.new_zeros((x.shape[0], rows + 1, 4)) + x[:, :1, None]

    program = onnxport.export(model, torch.randn(2, 16), input_names=["x"], dynamic_axes={"x": {0: "b", 1: "n"}})
    for shape in ((2, 40), (3, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("example", [(6, 7), (4, 7), (3, 7)])
def test_a_padding_that_is_equal_to_other_arguments_or_to_none(example: tuple[int, int]) -> None:
    """Padding, stride and dilation are all 1 in the first example; in the last the padding is the default."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return nnf.max_pool2d(x, 3, stride=1, padding=min(x.shape[2] // 4, 1))

    axes = {"x": {2: "h", 3: "w"}}
    program = onnxport.export(model, torch.randn(1, 2, *example), input_names=["x"], dynamic_axes=axes)
    for shape in ((3, 9), (4, 4), (11, 3)):
        x = torch.randn(1, 2, *shape)
        torch.testing.assert_close(program(x), model(x))


def rows_added(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(6)
    for i in range(x.shape[0]):
        total = torch.tanh(total + x[i])
    return total


def narrow_rows_added(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(6)
    for i in range(x.shape[0]):
        total = torch.tanh(total + x.narrow(0, i, 1)[0])
    return total


def row_at_a_size(x: torch.Tensor) -> torch.Tensor:
    return x[x.shape[0] // 8] * 2


def row_cleared(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[x.shape[0] // 8] = 0
    return y


def rows_from_a_size(x: torch.Tensor) -> torch.Tensor:
    return x.narrow(0, x.shape[0] // 8, 2)


@pytest.mark.parametrize("model", [rows_added, narrow_rows_added, row_at_a_size, row_cleared, rows_from_a_size])
def test_an_index_that_is_equal_to_its_axis_in_the_example(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = onnxport.export(model, torch.randn(4, 6), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (3, 9, 17, 30):
        x = torch.randn(n, 6)
        torch.testing.assert_close(program(x), model(x))
