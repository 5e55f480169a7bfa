"""Loops of Python code that data end are loops of the file, or branches where their rounds are counted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.paths.test_conditions_on_data import BASE, CONTENTS, OTHER_SIZES, as_in_torch


def halved(x: Tensor) -> Tensor:
    while x.abs().max() > 1:
        x = x / 2
    return x + 1


def ended_by_break(x: Tensor) -> Tensor:
    while True:
        x = x / 2
        if x.abs().max() < 0.5:
            break
    return x


def counted_in_a_tensor(x: Tensor) -> tuple[Tensor, Tensor]:
    rounds = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > 1:
        x = x / 2
        rounds = rounds + 1
    return x, rounds


def two_loops(x: Tensor) -> Tensor:
    while x.abs().max() > 1:
        x = x / 2
    x = x + 4
    while x.abs().max() > 2:
        x = x * 0.7
    return x


def between_conditions(x: Tensor) -> Tensor:
    if x[0].sum() > 0:
        x = x * 3
    while x.abs().max() > 1:
        x = x / 2
    if x[1].sum() > 0:
        x = x + 5
    return x


def on_one_side(x: Tensor) -> Tensor:
    if x[0].sum() > 0:
        while x.abs().max() > 1:
            x = x / 2
    else:
        x = x.sin()
    return x * 2


def counted_by_python(x: Tensor) -> Tensor:
    rounds = 0
    while rounds < 5 and x.abs().max() > 1:
        x = x / 2
        rounds += 1
    return x * rounds


def at_most_ten(x: Tensor) -> Tensor:
    for _ in range(10):
        x = x * 0.8
        if x.abs().max() < 1:
            break
    else:
        x = x - 100
    return x


def written_in_place(x: Tensor) -> Tensor:
    x = x.clone()
    while x.abs().max() > 1:
        x /= 2
    return x


def written_through_views(x: Tensor) -> tuple[Tensor, Tensor]:
    x, counts = x.clone(), torch.zeros(3)
    rest = x[1:]
    while x.abs().max() > 1:
        rest.mul_(0.5)
        x[0] *= 0.5
        counts[1] += 1
    return x + rest.sum(), counts


PROGRAMS = [
    (halved, 1), (ended_by_break, 1), (counted_in_a_tensor, 1), (two_loops, 2), (between_conditions, 1),
    (on_one_side, 1), (counted_by_python, 0), (at_most_ten, 0), (written_in_place, 1), (written_through_views, 1),
]  # fmt: skip


@pytest.mark.parametrize("example", [0, 4, 8])
@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize(("model", "loops"), PROGRAMS)
def test_as_many_rounds_as_the_data_need(model: Callable[..., Any], loops: int, axes: Any, example: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, CONTENTS[example], input_names=["x"], dynamic_axes=axes)
    as_in_torch(model, program, CONTENTS + (OTHER_SIZES if axes else []))
    assert program.report.operators.get("Loop", 0) == loops


def test_a_number_ends_the_loop() -> None:
    def model(n: Tensor) -> Tensor:
        while n.item() != 1:
            n = (n - 1).clamp(min=1)
        return n * 10

    program = onnxport.export(model, torch.tensor(4))
    as_in_torch(model, program, [torch.tensor(n) for n in (1, 2, 9)])


def made_in_the_last_round(x: Tensor) -> Tensor:
    y = x
    while x.abs().max() > 1:
        y = x.sin()
        x = x / 2
    return x + y


def listed(x: Tensor) -> Tensor:
    found = [x]
    while x.abs().max() > 1:
        x = x / 2
        found.append(x)
    return torch.stack(found).sum(0)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (made_in_the_last_round, "a result of one iteration is used after the loop"),
        (listed, "no end of the conditions on data is in sight"),
    ],
)
def test_loops_that_cannot_be_followed_are_unrolled_with_the_reason(model: Callable[..., Any], reason: str) -> None:
    with pytest.warns(onnxport.TraceWarning, match=reason):
        program = onnxport.export(model, BASE)
    torch.testing.assert_close(program(BASE), model(BASE))
