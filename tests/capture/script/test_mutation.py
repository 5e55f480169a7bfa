"""Scripted programs that write to tensors inside branches and loops."""

from __future__ import annotations

import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
SEVERAL = [(X, n) for n in (0, 1, 2)]
SIGNS = [(X,), (-X - 1,), (X * 0,)]
ROWS = [(torch.arange(3.0 * n).view(n, 3),) for n in (1, 2, 5)]
BATCH = {"x": {0: "batch"}}


def filled_by_row(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for i in range(x.size(0)):
        out[i] = x[i] * i
    return out


def filled_by_element(x: Tensor, n: int) -> Tensor:
    out = torch.zeros(4, 3)
    for i in range(n):
        for j in range(3):
            out[i, j] = x[i, j] + i * j
    return out


def added_in_place(x: Tensor, n: int) -> Tensor:
    x = x.clone()
    for i in range(n):
        x += i
        x[:, 0] *= 2
    return x


def through_a_view(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    data = x.clone()
    flat = data.view(-1)
    for i in range(n):
        flat[i] = 9.0
        data[1, i] -= 1
    return data, flat


def view_inside(x: Tensor, n: int) -> Tensor:
    data = x.clone()
    for i in range(n):
        row = data[i]
        row.mul_(3)
        row[1:].add_(1)
    return data


def in_one_branch(x: Tensor) -> Tensor:
    data = x.clone()
    if bool(x.sum() > 0):
        data[0] = 7.0
    return data + 1


def in_both_branches(x: Tensor) -> Tensor:
    data = x.clone()
    if bool(x.sum() > 0):
        data.add_(1)
    else:
        data[data < 0] = 5.0
    return data


def nested_write(x: Tensor, n: int) -> Tensor:
    data = x.clone()
    for i in range(n):
        if i % 2 == 0:
            data[i] = -1.0
        else:
            for j in range(3):
                data[i, j] = data[i, j] + j
    return data


def two_tensors(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    left, right = x.clone(), torch.zeros(3)
    for i in range(n):
        left[i] += right
        right += left[0]
    return left, right


def earlier_reader(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    data = x.clone()
    before = data * 2
    for i in range(n):
        data[i] = 0.0
    return before, data


def scattered(x: Tensor, n: int) -> Tensor:
    data = x.clone()
    for i in range(n):
        index = torch.full([1, 3], i, dtype=torch.long)
        data.scatter_(0, index, data[:1] + 1)
    return data


def masked(x: Tensor, n: int) -> Tensor:
    data = x.clone()
    for i in range(n):
        data.masked_fill_(data > 3 + i, -1.0)
    return data


PROGRAMS = [
    Program("filled_by_row", filled_by_row, (X,), ROWS, axes=BATCH),
    Program("filled_by_element", filled_by_element, (X, 2), SEVERAL),
    Program("added_in_place", added_in_place, (X, 2), SEVERAL),
    Program("through_a_view", through_a_view, (X, 2), SEVERAL),
    Program("view_inside", view_inside, (X, 2), SEVERAL),
    Program("in_one_branch", in_one_branch, (X,), SIGNS),
    Program("in_both_branches", in_both_branches, (X,), SIGNS),
    Program("nested_write", nested_write, (X, 2), SEVERAL),
    Program("two_tensors", two_tensors, (X, 2), SEVERAL),
    Program("earlier_reader", earlier_reader, (X, 2), SEVERAL),
    Program("scattered", scattered, (X, 2), SEVERAL),
    Program("masked", masked, (X, 2), SEVERAL),
]

test_mutation = table(PROGRAMS)


def test_a_tensor_that_may_or_may_not_be_another() -> None:
    @torch.jit.script
    def unclear(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        y = x if bool(x.sum() > 0) else x + 1
        y[0] = 5.0
        return x, y

    exported = onnxport.export(unclear, (X,))
    for x in (X + 1, -X - 1):
        torch.testing.assert_close(tuple(exported(x)), unclear(x))
