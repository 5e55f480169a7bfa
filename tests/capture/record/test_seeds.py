"""Random numbers from a seed that the model sets are the same in each run: constants of the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import onnxport
from tests.recording import is_recorded

Model = Callable[[torch.Tensor], torch.Tensor]


def sets_the_seed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x @ torch.randn(4, 3)


def makes_a_generator(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.randn(4, 3, generator=torch.Generator().manual_seed(3))


def permutes(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x[:, torch.randperm(4)]


def fills(x: torch.Tensor) -> torch.Tensor:
    noise = torch.zeros(4)
    noise[1:].uniform_(generator=torch.Generator().manual_seed(3))
    return x * noise


def forks(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return x * torch.randn(4)


def draws_like(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand_like(x)


def draws_rows(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.randn(x.shape[0], 4)


def drops(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return functional.dropout(x, 0.5, training=True)


def flips(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.bernoulli(x.sigmoid())


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize("model", [sets_the_seed, makes_a_generator, permutes, fills, forks])
def test_seeded_numbers_are_constants(model: Model, axes: Any) -> None:
    program = onnxport.export(model, torch.randn(5, 4), input_names=["x"], dynamic_axes=axes)
    for size in (5, 1, 8) if axes else (5,):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("model", [draws_like, draws_rows])
def test_as_many_numbers_as_a_dynamic_axis_is_long(model: Model) -> None:
    program = onnxport.export(model, torch.randn(5, 4))
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))
    with pytest.raises(onnxport.DynamicAxisError, match=r"test_seeds\.py:\d+, in \S+: aten::rand\w* draws from a seed"):
        onnxport.export(model, torch.randn(5, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize("model", [drops, flips])
def test_seeded_numbers_that_the_input_decides(model: Model) -> None:
    with pytest.raises(onnxport.CaptureError, match=r"test_seeds\.py:\d+, in \S+: .* depends on the input"):
        onnxport.export(model, torch.randn(5, 4))


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_the_same_by_chance_are_drawn_anew(seed: int) -> None:
    torch.manual_seed(seed)
    program = onnxport.export(lambda x: x + torch.randint(0, 2, (1,)), torch.zeros(3))
    assert {float(program(torch.zeros(3))[0]) for _ in range(64)} == {0.0, 1.0}


def test_a_generator_that_the_model_holds_goes_on() -> None:
    generator = torch.Generator().manual_seed(3)
    program = onnxport.export(lambda x: x + torch.randn(4, generator=generator), torch.zeros(2, 4))
    assert not torch.equal(program(torch.zeros(2, 4)), program(torch.zeros(2, 4)))


def test_an_output_that_no_random_number_reaches_is_compared() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(4)
        return x * (noise == noise) + (0 if is_recorded() else 1)

    with pytest.raises(onnxport.VerificationError):
        onnxport.export(model, torch.randn(2, 4))


def test_a_seed_outside_of_torch(recwarn: pytest.WarningsRecorder) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        np.random.seed(0)
        return x * float(np.random.rand())

    program = onnxport.export(model, torch.randn(2, 4))
    x = torch.randn(2, 4)
    torch.testing.assert_close(program(x), model(x))
    assert not [warning for warning in recwarn if warning.category is onnxport.TraceWarning]
