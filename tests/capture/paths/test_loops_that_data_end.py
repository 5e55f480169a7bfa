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


def the_value_before(x: Tensor) -> Tensor:
    while True:
        y = torch.sqrt(x.abs() + 1)
        if (y - x).abs().max() < 1e-3:
            break
        x = y
    return x


def halved_or_shifted(x: Tensor) -> Tensor:
    """Nothing uses what the branch of the last iteration gives for the next one."""
    total = x.sum() * 0
    while x.abs().max() > 1:
        if x.sum() > 0:
            x, step = x / 2, total + 1
        else:
            x, step = x * 0.7, total * 0.5
        total = step + x[0, 0]
    return x


def with_the_values_before(x: Tensor) -> Tensor:
    a, b = x.abs().sum().round() + 1, x.abs().max().round()
    while b > 0:
        a, b = b, a % b
    return x * a


def until_equal(x: Tensor) -> Tensor:
    x = x.round()
    while True:
        y = (x / 2).floor()
        if torch.equal(x, y):
            return y
        x = y


def bisected(x: Tensor) -> Tensor:
    low, high = x.new_zeros(()), x.abs().sum() + 1
    while high - low > 0.01:
        middle = (low + high) / 2
        if middle * middle > x.abs().max():
            high = middle
        else:
            low = middle
    return low


def number_of_iterations(x: Tensor) -> tuple[Tensor, Tensor]:
    n, scale = 0, 1.0
    while x.abs().max() > 1:
        x = x / (n + 2)
        n += 1
        scale += 0.5
    return x * scale, torch.tensor([n, 7, n * 2])


def number_used_in_a_branch_behind(x: Tensor) -> Tensor:
    n = 0
    while x.abs().max() > 1:
        x = x / 2
        n += 1
    if x.sum() > 0:
        x = x.sin()
    return x * n


def many_iterations_at_most(x: Tensor) -> tuple[Tensor, Tensor]:
    for n in range(300):
        x = x * 0.99
        if x.abs().max() < 0.5:
            return x, torch.tensor(n)
    return x - 100, torch.tensor(-1)


def few_iterations_at_most(x: Tensor) -> Tensor:
    n = 0
    while n < 12:
        x = x * 0.9
        if x.abs().max() < 0.5:
            break
        x = x - 0.001
        n += 1
    return x * n


PROGRAMS = [
    (halved, 1), (ended_by_break, 1), (counted_in_a_tensor, 1), (two_loops, 2), (between_conditions, 1),
    (on_one_side, 1), (counted_by_python, 1), (at_most_ten, 1), (written_in_place, 1), (written_through_views, 1),
    (made_in_the_last_round, 1), (listed, 1), (the_value_before, 1), (halved_or_shifted, 1), (until_equal, 1),
    (with_the_values_before, 1),
    (bisected, 1), (number_of_iterations, 1), (many_iterations_at_most, 1), (few_iterations_at_most, 1),
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


@pytest.mark.parametrize("example", [0, 8])
def test_a_number_that_a_branch_behind_the_loop_uses(example: int) -> None:
    program = onnxport.export(number_used_in_a_branch_behind, CONTENTS[example])
    as_in_torch(number_used_in_a_branch_behind, program, CONTENTS)


def in_growing_steps(x: Tensor) -> Tensor:
    step = 1.0
    while x.abs().max() > 1:
        x = x * (1 - 0.5 * step)
        step *= 0.9
    return x


def with_two_ends(x: Tensor) -> Tensor:
    while x.abs().max() > 1:
        x = x / 2
        if x.sum() > 5:
            break
        x = x - 0.1
    return x


@pytest.mark.parametrize("model", [in_growing_steps, with_two_ends])
@pytest.mark.parametrize("example", [0, 8])
def test_loops_that_cannot_be_followed_are_errors_or_right(model: Callable[..., Any], example: int) -> None:
    try:
        program = onnxport.export(model, CONTENTS[example])
    except onnxport.CaptureError as error:
        assert "data decide when this loop ends" in str(error)
        assert f"in {model.__name__}" in str(error)
    else:
        as_in_torch(model, program, CONTENTS)


def test_a_loop_that_cannot_be_followed_is_an_error_with_its_line() -> None:
    line = in_growing_steps.__code__.co_firstlineno + 2
    with pytest.raises(
        onnxport.CaptureError, match=rf"test_loops_that_data_end.py:{line}.*data decide when this loop ends"
    ):
        onnxport.export(in_growing_steps, BASE)
    with pytest.warns(onnxport.TraceWarning):
        program = onnxport.export(in_growing_steps, BASE, control_flow="trace")
    torch.testing.assert_close(program(BASE), in_growing_steps(BASE))
