"""Axes of several inputs whose sizes only go together."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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


class Patches(nn.Module):
    """A position for each patch: an image may be larger by less than a patch."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(3, 8, 8, 8), nn.Parameter(torch.randn(16, 8))

    def forward(self, image: Tensor) -> Tensor:
        return self.patches(image).flatten(2).transpose(1, 2) + self.positions  # type: ignore[no-any-return]


def test_an_axis_that_takes_few_other_sizes() -> None:
    model = Patches()
    axes = {"image": {0: "batch", 2: "size", 3: "size"}}
    program = onnxport.export(model, (torch.randn(2, 3, 32, 32),), input_names=["image"], dynamic_axes=axes)
    assert any(case.sizes["size"] != 32 for case in program.verification.cases)
    for batch, size in ((1, 33), (3, 39), (2, 32)):
        image = torch.randn(batch, 3, size, size)
        torch.testing.assert_close(program(image), model(image))


def test_values_in_between_are_as_wide_as_either_operand() -> None:
    """An axis of size 1 in the example may be 1 or as long as the other: the runtime plans memory by names."""
    axes = {"x": {0: "a"}, "y": {0: "b", 1: "c"}}
    example = torch.randint(1, 9, (3,)), torch.randint(1, 9, (3, 1))
    program = onnxport.export(torch.floor_divide, example, input_names=["x", "y"], dynamic_axes=axes)
    for a, b, c in ((3, 3, 1), (5, 2, 1), (4, 2, 4)):
        given = torch.randint(-9, 9, (a,)), torch.randint(1, 9, (b, c))
        assert torch.equal(program(*given), torch.floor_divide(*given))
