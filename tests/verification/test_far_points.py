"""Sizes far from the example's: the file is right there, or there is an error."""

from __future__ import annotations

import hashlib
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
    """A number that is 2 up to a size far from the example's."""
    levels = 2 + int(math.log2(max(int(x.shape[1]) / 64, 1)))
    return x * levels


def test_a_number_that_differs_at_far_sizes_only_is_followed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        program = onnxport.export(Model(steps), torch.randn(2, 12, 3), input_names=["x"], dynamic_axes=AXES)
    for tokens in (1, 64, 127, 128, 129, 1000, 5000):
        x = torch.randn(1, tokens, 3)
        torch.testing.assert_close(program(x), steps(x))


def scrambled(x: Tensor) -> Tensor:
    """A number that no expression of sizes is."""
    return x * (hashlib.md5(str(x.shape[1]).encode()).digest()[0] + 1)


def test_a_number_that_nothing_explains_is_an_error() -> None:
    with pytest.raises((onnxport.DynamicAxisError, onnxport.VerificationError), match=r"tokens=\d+"):
        onnxport.export(Model(scrambled), torch.randn(2, 12, 3), input_names=["x"], dynamic_axes=AXES)


def test_a_declared_range_is_checked_within() -> None:
    tokens = torch.export.Dim("tokens", min=2, max=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        program = onnxport.export(
            Model(steps), torch.randn(2, 12, 3), input_names=["x"], dynamic_shapes={"x": {1: tokens}}
        )
    assert all(case.sizes["tokens"] <= 100 for case in program.verification.cases)


def test_ties_of_a_sort_are_not_told_of() -> None:
    def sorted_ties(x: Tensor) -> Tensor:
        return x.argmax(1).argsort()

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        onnxport.export(Model(sorted_ties), torch.randn(3, 2), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_weights_that_nothing_reads_stay_in_a_file_that_is_not_optimised() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    program = onnxport.export(model, torch.randn(3, 4), optimize=False)
    assert {tensor.name for tensor in program.model_proto.graph.initializer} >= model.state_dict().keys()
    program.apply_weights({name: tensor.clone() for name, tensor in model.state_dict().items()})


def test_the_length_of_a_list_is_right_at_every_size_of_a_range() -> None:

    def counted(x: Tensor) -> Tensor:
        return x.new_ones(len(list(range(-1, int(x.shape[0]), 3))))

    n = torch.export.Dim("n", min=4, max=12)
    try:
        program = onnxport.export(Model(counted), torch.randn(6), dynamic_shapes=({0: n},), verify=False)
    except onnxport.DynamicAxisError:
        return
    for length in range(4, 13):
        assert program(torch.randn(length)).shape == counted(torch.randn(length)).shape, length


def test_axes_that_only_vary_together_are_checked_at_small_sizes() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return y.reshape(*x.shape[:3], -1)

    axes = {"x": [0, 1, 2, 3], "y": [0, 1, 2, 3]}
    example = torch.ones(2, 3, 4, 5), torch.ones(3, 4, 5, 2)
    program = onnxport.export(model, example, input_names=["x", "y"], dynamic_axes=axes)
    sizes = [case.sizes for case in program.verification.cases]
    assert all(math.prod(row.values()) <= 2**8 * math.prod(sizes[0].values()) for row in sizes)
    assert all(any(row[axis] not in (1, sizes[0][axis]) for row in sizes) for axis in sizes[0])
