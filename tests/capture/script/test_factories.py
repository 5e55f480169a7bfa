"""Tensors that scripted programs make of sizes and numbers which only run time knows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, table

BOX = torch.arange(24.0).view(2, 3, 4)
BOXES = [(torch.arange(30.0).view(5, 1, 6),), (torch.arange(84.0).view(3, 7, 4),)]
EVERY_AXIS = {"x": {0: "a", 1: "b", 2: "c"}}
ZERO_DIM = [(torch.tensor(number),) for number in (-1.25, 0.0, 1e6)]


def zeros(x: Tensor) -> Tensor:
    return torch.zeros(x.size())


def ones(x: Tensor) -> Tensor:
    return torch.ones(x.size(0), x.size(2), x.size(1))


def full(x: Tensor) -> Tensor:
    return torch.full(x.size(), 2.5) + x


def full_of_a_size(x: Tensor) -> Tensor:
    return torch.full([x.size(0), 2, x.size(2)], x.size(1))


def empty(x: Tensor) -> Tensor:
    return torch.empty(x.size(), dtype=torch.int32).fill_(7)


def rand(x: Tensor) -> Tensor:
    return torch.rand(x.size(2), x.size(0)) < 2


def drawn_numbers(x: Tensor) -> Tensor:
    return torch.randn(x.size()) * 0 + torch.randint(3, 4, [x.size(1), 1])


def counted(x: Tensor) -> Tensor:
    return torch.arange(x.size(0) * x.size(2)).view(x.size(0), x.size(2))


def identity(x: Tensor) -> Tensor:
    return torch.eye(x.size(2), x.size(1))


def new_zeros(x: Tensor) -> Tensor:
    return x.new_zeros(x.shape + x.shape)


def new_ones_of_another_type(x: Tensor) -> Tensor:
    return x.new_ones([x.size(2), x.size(0)], dtype=torch.int64)


def in_a_loop(x: Tensor, n: int) -> Tensor:
    found = torch.zeros(x.size(0), x.size(1), x.size(2), n)
    for i in range(n):
        found = found + torch.ones(x.size(0), x.size(1), x.size(2), n) * i
    return found


def list_of_a_float(x: Tensor) -> Tensor:
    return torch.tensor([float(x)])


def list_of_floats(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.tensor([float(x), 2.5, float(x) / 4.0]), torch.tensor([float(x)], dtype=torch.float64)


def list_of_sizes(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    return torch.tensor([x.size(0), int(n)]), torch.tensor([x.size(2), 4], dtype=torch.float32)


def rows_of_numbers(x: Tensor, n: Tensor) -> Tensor:
    return torch.tensor([[x.size(0), int(n)], [7, x.size(2)], [int(n), -1]])


def list_of_flags(x: Tensor, n: Tensor) -> Tensor:
    return torch.tensor([bool(n), x.size(0) > 3, True])


COUNTED_BOXES = [(*boxes, torch.tensor(n)) for boxes, n in zip(BOXES, (-4, 0), strict=True)]

PROGRAMS = [
    *(
        Program(function.__name__, function, (BOX,), BOXES, axes=EVERY_AXIS)
        for function in (
            zeros, ones, full, full_of_a_size, empty, rand, drawn_numbers, counted, identity, new_zeros,
            new_ones_of_another_type,
        )
    ),
    Program("in_a_loop", in_a_loop, (BOX, 2), [(*boxes, 3) for boxes in BOXES], axes=EVERY_AXIS),
    Program("list_of_a_float", list_of_a_float, (torch.tensor(2.5),), ZERO_DIM),
    Program("list_of_floats", list_of_floats, (torch.tensor(2.5),), ZERO_DIM),
    *(
        Program(function.__name__, function, (BOX, torch.tensor(3)), COUNTED_BOXES, axes=EVERY_AXIS)
        for function in (list_of_sizes, rows_of_numbers, list_of_flags)
    ),
]  # fmt: skip

test_factories = table(PROGRAMS)


def test_rows_of_lists_that_grow() -> None:
    @torch.jit.script
    def rows(x: Tensor, n: int) -> Tensor:
        grown = [0]
        for i in range(n):
            grown.append(i)
        return torch.tensor([grown, grown]) + x.size(0)

    program = onnxport.export(rows, (BOX, 2))
    for n in (0, 5):
        torch.testing.assert_close(program(BOX, torch.tensor(n)), rows(BOX, n))


def test_a_tensor_of_a_list_is_a_copy() -> None:
    @torch.jit.script
    def copied(x: Tensor, n: int) -> tuple[Tensor, list[int]]:
        grown = [0]
        for i in range(n):
            grown.append(i)
        numbers = torch.tensor(grown)
        numbers.add_(x.size(0))
        return numbers, grown

    program = onnxport.export(copied, (BOX, 2))
    numbers, grown = program(BOX, torch.tensor(4))
    assert (numbers.tolist(), grown.tolist()) == ([2, 2, 3, 4, 5], [0, 0, 1, 2, 3])


def test_a_shape_that_grows_at_run_time_is_refused() -> None:
    @torch.jit.script
    def shaped(x: Tensor, n: int) -> Tensor:
        shape = [2]
        for i in range(n):
            shape.append(i + 1)
        return torch.zeros(shape)

    with pytest.raises(onnxport.CaptureError, match=r"test_factories\.py:\d+: "):
        onnxport.export(shaped, (BOX, 2))
