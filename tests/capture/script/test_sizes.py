"""Sizes that scripted programs compute: right far from the example, and named by their expressions in the file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onnxport

LENGTHS = (1, 2, 3, 5, 8, 9, 101, 4000, 4001, 9999, 10001, 20005)


def halved(x: Tensor) -> Tensor:
    return x.new_zeros(x.size(0) // 2 + 1, 3) + 1


def bounded(x: Tensor) -> Tensor:
    return x[: min(x.size(0), 4000)] * 2


def cut(x: Tensor) -> Tensor:
    return x[:5000] * 2


def cut_from_the_end(x: Tensor) -> Tensor:
    return x[-5000:] * 2


def thousands(x: Tensor) -> Tensor:
    return x.new_ones(x.size(0) // 10000 + 1, 3)


def by_a_float(x: Tensor) -> Tensor:
    return x.new_ones(int(x.size(0) * 0.5) + 1, 3)


def all_elements(x: Tensor) -> Tensor:
    return x.new_ones(x.numel(), 3)


def padded(x: Tensor) -> Tensor:
    y = F.pad(x, [0, 0, 0, (4 - x.size(0) % 4) % 4])
    return y.view(-1, 4, x.size(1)).mean(1)


def resized(x: Tensor) -> Tensor:
    y = F.interpolate(x.t()[None], scale_factor=2.0, mode="nearest")
    return y[0].t()[: x.size(0) + 1]


def pooled(x: Tensor) -> Tensor:
    return F.max_pool1d(x.t()[None], 2, 2, ceil_mode=True)[0].t()


def larger_of_two(x: Tensor) -> Tensor:
    return x.new_zeros(max(x.size(0) - 100, 1), 3)


SIZES = {
    halved: "n//2 + 1",
    bounded: "min(n, 4000)",
    cut: "min(n, 5000)",
    cut_from_the_end: "n - max(n - 5000, 0)",
    thousands: "n//10000 + 1",
    by_a_float: "n//2 + 1",
    all_elements: "3*n",
    padded: "((-n) % 4 + n)//4",
    resized: "n + 1",
    pooled: "(n + 1)//2",
    larger_of_two: "max(n - 100, 1)",
}


@pytest.mark.parametrize("function", SIZES, ids=lambda function: function.__name__)
def test_sizes_of_a_script(function: Callable[[Tensor], Tensor]) -> None:
    script = torch.jit.script(function)
    program = onnxport.export(script, torch.randn(6, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    (output,) = program.model_proto.graph.output
    assert output.type.tensor_type.shape.dim[0].dim_param == SIZES[function]
    for length in LENGTHS:
        x = torch.randn(length, 3)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.parametrize("function", SIZES, ids=lambda function: function.__name__)
def test_sizes_of_a_script_that_is_called(function: Callable[[Tensor], Tensor]) -> None:
    script = torch.jit.script(function)
    program = onnxport.export(
        lambda x: script(x) + 1, torch.randn(6, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    for length in LENGTHS:
        x = torch.randn(length, 3)
        torch.testing.assert_close(program(x), function(x) + 1)


def test_a_condition_on_sizes_that_always_holds_has_one_way() -> None:
    @torch.jit.script
    def checked(x: Tensor) -> Tensor:
        if x.size(0) * 2 >= x.size(0) and x.size(1) == 3:
            return x + 1
        return x - 1

    program = onnxport.export(checked, torch.randn(6, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert [node.op_type for node in program.model_proto.graph.node] == ["Add"]


def test_a_number_that_is_read_may_be_negative() -> None:
    @torch.jit.script
    def shifted(x: Tensor, k: int) -> Tensor:
        return x[: max(k, 0)] * 2 + x.new_zeros(max(k, 0), 1)

    program = onnxport.export(shifted, (torch.randn(6, 3), 2), input_names=["x", "k"], dynamic_axes={"x": {0: "n"}})
    for k in (-3, 0, 1, 5):
        x = torch.randn(7, 3)
        torch.testing.assert_close(program(x, torch.tensor(k)), shifted(x, k))
