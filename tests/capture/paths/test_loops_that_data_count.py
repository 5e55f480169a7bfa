"""`for` loops of Python code of which data decide the number of iterations are loops of the file."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxport


def doubled(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = x * 2
    return x


def with_the_index(x: Tensor, n: Tensor) -> Tensor:
    for i in range(n.item()):
        x = x + i
    return x


def from_one_on(x: Tensor, n: Tensor) -> Tensor:
    for i in range(1, int(n) + 1):
        x = x * 0.5 + i
    return x


def downwards(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n), 0, -1):
        x = x / 2 + i
    return x


def in_steps(x: Tensor, n: Tensor) -> Tensor:
    for i in range(0, int(n), 2):
        x = x + i
    return x


def stacked(x: Tensor, n: Tensor) -> Tensor:
    return torch.stack([x * i for i in range(int(n))])


def joined(x: Tensor, n: Tensor) -> Tensor:
    found = []
    for i in range(int(n)):
        x = x + 1
        found.append(x[:2] * i)
    return torch.cat(found)


def nested(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        for j in range(int(n) + 1):
            x = x * 0.5 + j
        x = x + i
    return x


def written_rows(x: Tensor, n: Tensor) -> Tensor:
    out = torch.zeros(9, 3)
    for i in range(int(n)):
        out[i] = x * i
    return out


def selected_rows(x: Tensor, n: Tensor) -> Tensor:
    table = torch.arange(27.0).view(9, 3)
    for i in range(int(n)):
        x = x + table[i]
    return x


def as_many_as_are_positive(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(x[x > 0].shape[0]):
        x = x + 1
    return x * n


def as_many_as_the_sum(x: Tensor, n: Tensor) -> Tensor:
    state = torch.zeros_like(x)
    for _ in range(int(n.sum() + 1)):
        state = torch.tanh(state + x)
    return state


def with_a_condition(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = x * 2 if x.sum() > 0 else x + 1
    return x


EMPTY_FAILS = {stacked, joined}  # torch joins no list without tensors either
PROGRAMS = [
    doubled, with_the_index, from_one_on, downwards, in_steps, stacked, joined, nested, written_rows, selected_rows,
    as_many_as_are_positive, as_many_as_the_sum, with_a_condition,
]  # fmt: skip


def exported(model: Callable[..., Any], n: int, axes: Any = None) -> onnxport.Program:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        example = torch.tensor([0.5, -1.0, 2.0]), torch.tensor(n)
        return onnxport.export(model, example, input_names=["x", "n"], dynamic_axes=axes)


@pytest.mark.parametrize("example", [1, 3, 6])
@pytest.mark.parametrize("model", PROGRAMS)
def test_as_many_iterations_as_the_data_say(model: Callable[..., Any], example: int) -> None:
    program = exported(model, example)
    for n in range(1 if model in EMPTY_FAILS else 0, 9):
        for x in (torch.tensor([0.1, 0.2, -3.0]), -torch.ones(3), torch.ones(3)):
            expected = model(x, torch.tensor(n))
            result = program(x, torch.tensor(n))
            assert result.dtype == expected.dtype
            torch.testing.assert_close(result, expected)
    assert "Loop" in program.report.operators


@pytest.mark.parametrize("model", [doubled, with_the_index, stacked, written_rows])
def test_beside_a_dynamic_axis(model: Callable[..., Any]) -> None:
    program = exported(model, 2, {"x": {0: "size"}} if model is not written_rows else None)
    for n in (1, 4):
        for size in (3,) if model is written_rows else (1, 3, 7):
            x = torch.linspace(-1, 2, size)
            torch.testing.assert_close(program(x, torch.tensor(n)), model(x, torch.tensor(n)))


def ended_by_data(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = x * 2
        if x.abs().max() > 5:
            break
    return x


def last_index(x: Tensor, n: Tensor) -> Tensor:
    i = 0
    for i in range(int(n)):  # noqa: B007
        x = x * 2
    return x + i


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ended_by_data, "a result of one iteration is used after the loop"),
        (last_index, "after 0 iterations of the loop the model does something else"),
    ],
)
def test_loops_that_cannot_be_followed_are_errors_with_the_reason(model: Callable[..., Any], reason: str) -> None:
    x, n = torch.tensor([0.5, -1.0, 2.0]), torch.tensor(4)
    with pytest.raises(onnxport.CaptureError, match=f"data decide when this loop ends.*{reason}"):
        onnxport.export(model, (x, n))


def test_a_traced_loop_is_unrolled() -> None:
    x, n = torch.ones(3), torch.tensor(4)
    with pytest.warns(onnxport.TraceWarning, match="a loop over it is unrolled"):
        program = onnxport.export(doubled, (x, n), control_flow="trace")
    assert program.report.operators.get("Loop", 0) == 0
    torch.testing.assert_close(program(x, n), doubled(x, n))
