"""Sizes, numbers and flags of scripted programs that only run time knows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
ROWS = torch.arange(1.0, 10.0).view(3, 3)
BATCHES = [(ROWS[:2],), (ROWS.repeat(2, 1),), (-ROWS,)]
BATCH = {"x": {0: "batch"}}


def counted_by_a_float(x: Tensor, f: float) -> Tensor:
    return torch.arange(0, f)


def size_from_a_float(x: Tensor, f: float) -> tuple[Tensor, int]:
    y = torch.zeros(int(f * 4), 3) + x[0]
    return y.view(-1), y.size(0)


def step(x: Tensor, n: int) -> Tensor:
    return x[:, ::n]


def rest(x: Tensor, n: int) -> tuple[Tensor, int]:
    y = x.reshape(n, -1)
    return y + 1, y.size(1)


def rest_in_front(x: Tensor, n: int) -> Tensor:
    return x.view(-1, n, 3).sum(1)


def bounds(x: Tensor, i: int, j: int) -> tuple[Tensor, int]:
    y = x[:, i:j]
    return y, y.size(1)


def element(x: Tensor, one: Tensor):  # type: ignore[no-untyped-def]
    """The type of ``item()`` is that of the tensor: the script does not say it."""
    number = one.item()
    return number, x * number, abs(x) + abs(one)


def flag(x: Tensor, one: Tensor):  # type: ignore[no-untyped-def]
    return one.item(), x


def chosen_rows(x: Tensor) -> tuple[Tensor, Tensor, int]:
    y = x[x[:, 0] > 2]  # as many columns as the example has rows
    return y, y.view(-1), y.size(0)


def unique(x: Tensor) -> tuple[Tensor, int]:
    found = torch.unique(x)
    return found * 2, found.size(0)


def unique_on_one_side(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return torch.unique(x)
    return x.view(-1).masked_select(x.view(-1) < -2)


def places(x: Tensor) -> Tensor:
    row, column = torch.where(x > 2)
    return x[row, column] * row


def broadcast(x: Tensor, n: int, m: int) -> tuple[Tensor, int, int]:
    left, right = x[0, :1].expand(n), torch.arange(m).float()
    return left + right, left.size(0), right.size(0)


def division(x: Tensor, n: int) -> tuple[Tensor, int, int, int, int, float]:
    return x + n, n // 3, n % 3, n // -3, n % -3, (n / 2) % 0.75


def bits(x: Tensor, n: int) -> tuple[Tensor, int, int, int, int, int]:
    for i in range(abs(n) & 7):
        if (i & 1) == 0:
            x = x + i
    return x, n & 3, n | 12, n ^ 5, n << 2, n >> 1


def bits_of_two(x: Tensor, n: int, m: int) -> tuple[Tensor, int, int, int]:
    return x + (x.size(0) & 1), n & m, n | m, n ^ m


PROGRAMS = [
    Program("counted_by_a_float", counted_by_a_float, (X, 2.5), [(X, f) for f in (1.0, 2.2, 9.0)]),
    Program("size_from_a_float", size_from_a_float, (X, 2.5), [(X, f) for f in (1.0, 2.2, 3.0)]),
    Program("step", step, (X, 2), [(X, n) for n in (1, 3)]),
    Program("rest", rest, (X, 2), [(X, n) for n in (1, 3, 6)]),
    Program("rest_in_front", rest_in_front, (X.repeat(2, 2), 2), [(X.repeat(2, 2), n) for n in (1, 4, 8)]),
    Program("bounds", bounds, (X, 1, 2), [(X, i, j) for i in (-2, 0, 1, 5) for j in (-1, 0, 2, 9)]),
    Program("chosen_rows", chosen_rows, (ROWS,), BATCHES, axes=BATCH),
    Program("unique", unique, (ROWS,), BATCHES, axes=BATCH),
    Program("unique_on_one_side", unique_on_one_side, (X,), [(X * 0,), (-X - 1,), (X // 2,)]),
    Program("places", places, (ROWS,), BATCHES, axes=BATCH),
    Program("broadcast", broadcast, (X, 3, 3), [(X, 1, 3), (X, 4, 1), (X, 2, 2)]),
    Program("bits", bits, (X, 6), [(X, n) for n in (-9, -1, 0, 1, 5, 8, 1000)]),
    Program(
        "bits_of_two",
        bits_of_two,
        (ROWS, 6, 3),
        [(ROWS[:2], n, m) for n in (-9, 0, 5) for m in (-4, 1, 77)],
        axes=BATCH,
    ),
    Program("element", element, (X, torch.tensor([3])), [(X, torch.tensor([-5]))]),
    Program("element_of_floats", element, (X, torch.tensor(2.5)), [(X, torch.tensor(-0.25))]),
    Program("element_of_bools", flag, (X, torch.tensor(True)), [(X, torch.tensor(False))]),
    Program("division", division, (X, -7), [(X, n) for n in (-3, -1, 0, 1, 5, 8)]),
]

test_run_time_numbers = table(PROGRAMS)


def test_a_flag_that_is_an_input_is_refused() -> None:
    @torch.jit.script
    def ordered(x: Tensor, falling: bool) -> Tensor:
        return x.sort(1, descending=falling)[0]

    with pytest.raises(onnxport.CaptureError, match=r"test_run_time_numbers\.py:\d+: 'descending' of aten::sort.*if"):
        onnxport.export(ordered, (X, True))


def test_an_axis_that_is_an_input_is_refused() -> None:
    @torch.jit.script
    def total(x: Tensor, axis: int) -> Tensor:
        return x.cumsum(axis)

    with pytest.raises(onnxport.ExportError, match=r"test_run_time_numbers\.py:\d+.*'dim' is only known at run time"):
        onnxport.export(total, (X, 1))


def test_a_list_of_numbers_is_one_output() -> None:
    @torch.jit.script
    def numbers(x: Tensor, n: int) -> tuple[Tensor, list[int], list[float]]:
        whole = [7]
        parts = [0.5]
        for i in range(n):
            whole.append(i)
            parts.append(i / 4)
        return x, whole, parts

    program = onnxport.export(numbers, (X, 2))
    assert program.verification.passed
    for n in (0, 1, 4):
        _, whole, parts = program(X, torch.tensor(n))
        assert list(whole) == [7, *range(n)]
        assert parts.dtype == torch.float32 and list(parts) == [0.5, *(i / 4 for i in range(n))]


def test_two_numbers_that_are_only_tried_as_one_are_refused() -> None:
    @torch.jit.script
    def folded(x: Tensor, n: int, m: int) -> tuple[Tensor, int]:
        y = x.unflatten(0, [n, m])
        return y + 1, y.size(0)

    with pytest.raises(onnxport.CaptureError, match=r"test_run_time_numbers\.py:\d+: aten::unflatten"):
        onnxport.export(folded, (torch.arange(9.0), 3, 3))
