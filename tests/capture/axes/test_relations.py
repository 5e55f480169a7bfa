"""Axes of several inputs whose sizes only go together."""

from __future__ import annotations

import torch
from torch import Tensor

import onnxport


def test_a_reshape_to_the_sizes_of_another_input() -> None:
    def reshaped(x: Tensor, y: Tensor) -> Tensor:
        return y.reshape((*x.size()[:3], -1)).transpose(1, 2)

    every = [0, 1, 2, 3]
    example = torch.randn(2, 3, 4, 5), torch.randn(3, 4, 5, 2)
    program = onnxport.export(reshaped, example, input_names=["x", "y"], dynamic_axes={"x": every, "y": every})
    for shape, other in (((3, 2, 5, 7), (6, 2, 5, 3)), ((1, 3, 8, 5), (2, 6, 2, 4))):
        x, y = torch.randn(shape), torch.randn(other)
        torch.testing.assert_close(program(x, y), reshaped(x, y))


def test_a_scatter_of_fewer_rows_than_its_source_has() -> None:
    def scattered(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return x.scatter_add(0, index, source)

    example = torch.zeros(3, 5), torch.tensor([[0, 1, 2, 0, 0]]), torch.ones(2, 5)
    axes = {"index": {0: "a", 1: "b"}, "source": {0: "c", 1: "d"}}
    program = onnxport.export(scattered, example, input_names=["x", "index", "source"], dynamic_axes=axes)
    for index, source in (((2, 3), (2, 4)), ((3, 5), (4, 5)), ((1, 2), (1, 2))):
        inputs = torch.zeros(3, 5), torch.randint(3, index), torch.randn(source)
        torch.testing.assert_close(program(*inputs), scattered(*inputs))
