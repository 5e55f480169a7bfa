"""Caches outside of modules, which no restoring of the model empties: what they hold from a call is told of."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport

Model = Callable[[torch.Tensor], torch.Tensor]


def mean_of_the_first_call() -> Model:
    cache: dict[str, torch.Tensor] = {}

    def model(x: torch.Tensor) -> torch.Tensor:
        if "mean" not in cache:
            cache["mean"] = x.mean()
        return x - cache["mean"]

    return model


def length_of_the_first_call() -> Model:
    cache: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        if not cache:
            cache.append(torch.arange(x.shape[0]).sum())
        return x * cache[0]

    return model


def length_of_the_first_call_as_a_number() -> Model:
    cache: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        if not cache:
            cache.append(torch.ones(int(x.shape[0])).cumsum(0)[-1])
        return x * cache[0]

    return model


def constant() -> Model:
    cache: dict[str, torch.Tensor] = {}

    def model(x: torch.Tensor) -> torch.Tensor:
        if "steps" not in cache:
            cache["steps"] = torch.arange(3.0).sin()
        return x * cache["steps"]

    return model


def by_size() -> Model:
    @functools.lru_cache
    def steps(n: Any) -> torch.Tensor:
        return torch.arange(n).float()

    return lambda x: x + steps(x.shape[0])[:, None]


def by_number() -> Model:
    cache: dict[int, torch.Tensor] = {}

    def model(x: torch.Tensor) -> torch.Tensor:
        n = int(x.shape[0])
        if n not in cache:
            cache[n] = torch.arange(n)
        return x * cache[n][:, None]

    return model


@pytest.mark.parametrize(
    "make", [mean_of_the_first_call, length_of_the_first_call, length_of_the_first_call_as_a_number]
)
def test_what_the_first_call_made_of_its_input_is_told_of(make: Callable[[], Model]) -> None:
    line = make.__code__.co_firstlineno + 5
    with pytest.warns(
        onnxport.TraceWarning, match=rf"test_caches\.py:{line}, in \S+: what is computed here from the input"
    ):
        onnxport.export(make(), torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize("make", [constant, by_size, by_number])
def test_what_does_not_depend_on_the_first_call_is_followed(make: Callable[[], Model]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(make(), torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 11):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), make()(x))


def test_the_file_computes_what_later_calls_of_the_model_compute() -> None:
    model, example = mean_of_the_first_call(), torch.randn(4, 3)
    with pytest.warns(onnxport.TraceWarning, match="what is computed here from the input is kept outside"):
        program = onnxport.export(model, example)
    x = torch.randn(4, 3)
    torch.testing.assert_close(program(x), model(x))
    torch.testing.assert_close(program(x), x - example.mean())


def test_a_size_that_is_kept_is_a_plain_number_after_a_run_that_failed() -> None:
    kept: list[int] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        kept[:] = [x.shape[0]]
        if x.shape[0] != 4:
            raise ValueError("rows must be 4")
        return x * 2

    with pytest.warns(onnxport.DynamicAxisWarning, match="rows must be 4"):
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert [type(size) for size in kept] == [int]
