"""Dynamic axes of scripted models: those given by index only, sizes that the model refuses, and axes of size 1."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxport

X, Y = torch.arange(6.0).view(2, 3), torch.ones(2, 3)


def added(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def side_by_side(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y], 1)


def multiplied(x: Tensor, y: Tensor) -> Tensor:
    return x.t().mm(y)


def checked(x: Tensor, y: Tensor) -> Tensor:
    if x.size(0) != y.size(0):
        raise ValueError("not as many rows")
    return x + y


@pytest.mark.parametrize("function", [added, side_by_side, multiplied, checked])
def test_axes_given_by_index_may_turn_out_equal(function: Callable[..., Tensor]) -> None:
    program = onnxport.export(
        torch.jit.script(function), (X, Y), input_names=["x", "y"], dynamic_axes={"x": [0], "y": [0]}
    )
    axes = [entry.type.tensor_type.shape.dim[0].dim_param for entry in program.model_proto.graph.input]
    assert axes == ["x_dim_0", "x_dim_0"]
    for n in (1, 5):
        given = torch.randn(n, 3), torch.randn(n, 3)
        torch.testing.assert_close(program(*given), function(*given))


def test_axes_of_other_places_may_turn_out_equal() -> None:
    @torch.jit.script
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x.mm(y)

    program = onnxport.export(product, (X, Y.t()), input_names=["x", "y"], dynamic_axes={"x": [0, 1], "y": [0, 1]})
    given = torch.randn(4, 6), torch.randn(6, 5)
    torch.testing.assert_close(program(*given), product(*given))


def test_axes_that_differ_stay_apart() -> None:
    @torch.jit.script
    def outer(x: Tensor, y: Tensor) -> Tensor:
        return x[:, :1] + y[:, 0]

    program = onnxport.export(outer, (X, Y), input_names=["x", "y"], dynamic_axes={"x": [0], "y": [0]})
    given = torch.randn(4, 3), torch.randn(7, 3)
    torch.testing.assert_close(program(*given), outer(*given))


def test_what_the_model_raises_is_its_refusal() -> None:
    script, axes = torch.jit.script(checked), {"x": {0: "n"}, "y": {0: "m"}}
    with pytest.warns(onnxport.DynamicAxisWarning, match="'n' and 'm' have to be equal"):
        program = onnxport.export(script, (X, Y), input_names=["x", "y"], dynamic_axes=axes)
    given = torch.randn(5, 3), torch.randn(5, 3)
    torch.testing.assert_close(program(*given), checked(*given))


def test_what_a_called_script_raises_is_a_refusal() -> None:
    script = torch.jit.script(checked)

    class Calling(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Any:
            return script(x, y) * 2

    program = onnxport.export(Calling(), (X, Y), input_names=["x", "y"], dynamic_axes={"x": [0], "y": [0]})
    given = torch.randn(5, 3), torch.randn(5, 3)
    torch.testing.assert_close(program(*given), checked(*given) * 2)


def squeezed(x: Tensor) -> Tensor:
    return x.squeeze(1)


def squeezed_in_a_branch(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return x.relu().squeeze(1)
    return x


@pytest.mark.parametrize("function", [squeezed, squeezed_in_a_branch])
def test_an_axis_that_a_squeeze_would_drop_is_told_of(function: Callable[..., Tensor]) -> None:
    """From opset 11 on the file drops it, too: before, no output can have several numbers of dimensions."""
    with pytest.warns(onnxport.TraceWarning, match=r"test_dynamic_axes\.py:\d+: at k=1 this squeeze drops an axis"):
        program = onnxport.export(torch.jit.script(function), (X,), dynamic_axes={"x": {1: "k"}}, opset_version=10)
    given = torch.randn(2, 5)
    torch.testing.assert_close(program(given), function(given))


@pytest.mark.parametrize("function", [squeezed, squeezed_in_a_branch])
def test_a_squeeze_drops_an_axis_where_its_size_is_1(function: Callable[..., Tensor]) -> None:
    with pytest.warns(onnxport.DynamicAxisWarning, match="has one number of dimensions at some sizes"):
        program = onnxport.export(torch.jit.script(function), (X,), dynamic_axes={"x": {1: "k"}})
    for given in (torch.rand(2, 5), -torch.rand(2, 5), torch.rand(2, 1), -torch.rand(2, 1)):
        torch.testing.assert_close(program(given), function(given))


def test_an_axis_that_is_never_1_may_be_squeezed() -> None:
    shapes = {"x": {1: torch.export.Dim("k", min=2)}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        onnxport.export(torch.jit.script(squeezed), (X,), dynamic_shapes=shapes)


class Turning:
    """What is the same at the sizes that are read first, and another at smaller ones."""

    @staticmethod
    def cut(x: Tensor) -> Tensor:
        y = x[:4]
        return y * y.size(0)

    @staticmethod
    def cut_from_the_end(x: Tensor) -> Tensor:
        return x[-4:].flatten()

    @staticmethod
    def smaller_of_two(x: Tensor) -> Tensor:
        y = torch.topk(x, min(x.size(0), 4), dim=0)[0]
        return y * y.size(0) + torch.ones_like(y)

    @staticmethod
    def part(x: Tensor) -> Tensor:
        return x * (x.size(0) // 6 + 1)

    @staticmethod
    def condition(x: Tensor) -> Tensor:
        if x.size(0) > 4:
            return x * 2
        return x * 3


TURNING = [Turning.cut, Turning.cut_from_the_end, Turning.smaller_of_two, Turning.part, Turning.condition]


@pytest.mark.parametrize("called", [False, True], ids=["scripted", "called"])
@pytest.mark.parametrize("function", TURNING, ids=lambda function: function.__name__)
def test_sizes_are_tried_where_something_turns(function: Callable[[Tensor], Tensor], called: bool) -> None:
    script = torch.jit.script(function)

    def calling(x: Tensor) -> Tensor:
        result: Tensor = script(x)
        return result

    model = calling if called else script
    program = onnxport.export(model, torch.randn(5, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for length in (1, 2, 3, 4, 5, 9, 70):
        x = torch.randn(length, 3)
        torch.testing.assert_close(program(x), function(x))


def test_operators_are_taken_apart_however_many_axes_are_dynamic() -> None:
    """What C++ computes from sizes shows at far larger ones, where all of these axes together need no memory."""

    @torch.jit.script
    def norms(x: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(x, ord=1.0, dim=(0, 1), keepdim=True)

    axes = {"x": {axis: f"n{axis}" for axis in range(4)}}
    program = onnxport.export(norms, torch.rand(2, 3, 4, 5), input_names=["x"], dynamic_axes=axes)
    for shape in ((2, 3, 4, 5), (4, 1, 3, 2)):
        x = torch.rand(shape)
        torch.testing.assert_close(program(x), norms(x))


def kept_rows(x: Tensor) -> Tensor:
    return x[x[:, 0] > 0].squeeze(0) * 2


def test_a_squeeze_of_an_axis_whose_size_data_decide_is_told() -> None:
    x = torch.tensor([[1.0, 2], [-1, 3], [2, 4]])
    with pytest.warns(onnxport.TraceWarning, match="the size of an axis depends on the data here"):
        program = onnxport.export(torch.jit.script(kept_rows), x)
    for given in (x, -x.abs()):
        torch.testing.assert_close(program(given), kept_rows(given))
