"""The models of `traps`: each is right at sizes that it has never seen, or refused with the line; none is wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

import onnxport
from tests.capture.sizes.traps import REFUSED, RIGHT, STATIC, Limited, Trap


def example(trap: Trap) -> torch.Tensor:
    return torch.randn(trap.shape, generator=torch.Generator().manual_seed(0))


def at(trap: Trap, sizes: tuple[int, ...]) -> torch.Tensor:
    shape = list(trap.shape)
    for dim, size in zip(trap.axes, sizes, strict=True):
        shape[dim] = size
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", RIGHT)
def test_right_at_sizes_never_seen(name: str) -> None:
    trap = RIGHT[name]
    program = onnxport.export(trap.model, example(trap), input_names=["x"], dynamic_axes={"x": trap.axes})
    for sizes in trap.sizes:
        x = at(trap, sizes)
        expected = trap.model(x.clone())
        result = program(x)
        assert result.dtype == expected.dtype
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_line(name: str) -> None:
    trap, line, words = REFUSED[name]
    with pytest.raises(onnxport.DynamicAxisError, match=rf"traps\.py:{line}\b") as error:
        onnxport.export(trap.model, example(trap), input_names=["x"], dynamic_axes={"x": trap.axes})
    assert words in str(error.value)


@pytest.mark.parametrize("name", STATIC)
def test_an_axis_that_cannot_vary_is_static_with_a_warning(name: str) -> None:
    trap, words = STATIC[name]
    with pytest.warns(onnxport.DynamicAxisWarning, match=words):
        program = onnxport.export(trap.model, example(trap), input_names=["x"], dynamic_axes={"x": trap.axes})
    torch.testing.assert_close(program(example(trap)), trap.model(example(trap)))


def test_a_limit_that_is_an_attribute_is_followed() -> None:
    model = Limited()
    program = onnxport.export(model, torch.randn(2, 6), input_names=["x"], dynamic_axes={"x": {1: "t"}})
    for t in (2, 40, 41, 99):
        x = torch.randn(2, t)
        torch.testing.assert_close(program(x), model(x))


def test_within_a_range_that_does_not_reach_it_a_limit_is_no_matter() -> None:
    range_of_t = torch.export.Dim("t", min=2, max=40)
    model = Limited()
    program = onnxport.export(model, torch.randn(2, 6), dynamic_shapes={"x": {1: range_of_t}})
    for t in (2, 13, 40):
        x = torch.randn(2, t)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("in_python", [False, True])
def test_a_condition_that_turns_far_away_is_followed(in_python: bool) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        n = int(x.shape[0]) if in_python else x.shape[0]
        return x + 1 if n > 100_000 else x - 1

    program = onnxport.export(model, torch.randn(4, 6), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (999, 100_000, 100_001):
        torch.testing.assert_close(program(torch.ones(n, 6)), model(torch.ones(n, 6)))
    program = onnxport.export(model, torch.randn(4, 6), dynamic_shapes={"x": {0: torch.export.Dim("n", max=1000)}})
    torch.testing.assert_close(program(torch.ones(999, 6)), torch.zeros(999, 6))


@pytest.mark.parametrize("squeeze", [lambda x: x.squeeze(), lambda x: x.squeeze(0)])
def test_a_squeeze_that_would_drop_a_dynamic_axis_is_a_warning_with_its_line(
    squeeze: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return squeeze(x)

    line = squeeze.__code__.co_firstlineno
    with pytest.warns(onnxport.TraceWarning, match=rf"test_traps\.py:{line}, in \S+ .*squeeze.* n=1 "):
        onnxport.export(model, torch.randn(4, 6), input_names=["x"], dynamic_axes={"x": {0: "n"}}, opset_version=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.export(model, torch.randn(4, 6), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2)}})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "squeeze",
    [
        lambda x: x[x > 0].squeeze(0),
        lambda x: x[x > 0].squeeze(),
        lambda x: x.flatten().nonzero().squeeze(),
        lambda x: torch.cat([x[x > 0], x[x < -2]])[1:].squeeze(0),
    ],
)
def test_a_squeeze_that_would_drop_an_axis_whose_size_the_data_decides_is_a_warning(
    squeeze: Callable[[torch.Tensor], torch.Tensor], dynamic: bool
) -> None:
    line = squeeze.__code__.co_firstlineno
    axes = {"x": {0: "n"}} if dynamic else None
    with pytest.warns(onnxport.TraceWarning) as told:
        program = onnxport.export(squeeze, torch.randn(5, 6), input_names=["x"], dynamic_axes=axes)
    assert len(told) == 1
    assert re.search(rf"test_traps\.py:{line}, in \S+: the size of an axis depends on the data", str(told[0].message))
    for x in (torch.randn(5, 6), torch.zeros(5, 6) - 1):
        torch.testing.assert_close(program(x), squeeze(x))


def test_a_squeeze_of_another_axis_than_the_one_whose_size_the_data_decides_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(lambda x: x.nonzero().squeeze(1), torch.randn(5))
    for given in ([0.0, 0.0, 2.0, 0.0, 0.0], [0.0] * 5, [1.0] * 5):
        torch.testing.assert_close(program(torch.tensor(given)), torch.tensor(given).nonzero().squeeze(1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_random_numbers_of_numpy_are_a_warning_with_their_line(dynamic: bool) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * float(np.random.rand())

    line = model.__code__.co_firstlineno + 2
    axes = {"x": {0: "n"}} if dynamic else None
    with pytest.warns(onnxport.TraceWarning, match=rf"test_traps\.py:{line}, in \S+: a random number"):
        onnxport.export(model, torch.randn(4, 6), input_names=["x"], dynamic_axes=axes)


@pytest.mark.parametrize("name", ["expand_by_a_python_integer", "view_by_a_product", "pooling_over_everything"])
def test_models_without_conditions_run_once_without_a_warning(name: str) -> None:
    trap = RIGHT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(trap.model, example(trap), input_names=["x"], dynamic_axes={"x": trap.axes})
    assert len(program.report.sizes_traced) == 1


def test_an_unexplained_number_tells_its_value_at_each_size() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * len(bin(int(x.shape[0])))

    with pytest.raises(onnxport.DynamicAxisError) as error:
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert len(re.findall(r"\d+ at n=\d+", str(error.value))) >= 3
