"""Numbers that Python converts, in a module that also names the types in brackets."""

from __future__ import annotations

import contextlib
import linecache
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxport
from onnxport.capture.record.numbers import conversions
from tests.capture.record.at_sizes import check

Scales = list[float]
Sides = dict[str, int | float]


def _power(x: Tensor) -> Tensor:
    """As the scale of a level of a pyramid is found: rounded in a tensor, and read back."""
    ratio = float(x.shape[0]) / float(x.shape[1])
    return x * 2 ** float(torch.tensor(ratio).log2().round())


def _level(x: Tensor) -> Tensor:
    level = -torch.log2(torch.tensor(1 / x.shape[0], dtype=torch.float32)).item()
    return x.clamp(max=int(level)) + torch.zeros(int(level), 1).sum()


def _resized(x: Tensor) -> Tensor:
    """torch converts the product of a size and the factor, a tensor, to an int."""
    scale = 900 / torch.tensor(x.shape[0])
    return torch.nn.functional.interpolate(x[None, None], scale_factor=scale, recompute_scale_factor=True)[0, 0]


def _by_a_float(x: Tensor) -> Tensor:
    return x * torch.sym_float(torch.tensor(x.shape[0]) * 2)


def _smallest_of_one(x: Tensor) -> Tensor:
    rows = torch.arange(x.shape[0]) + x.sum()
    return rows * min(rows.shape) * max([x.shape[0]])


@pytest.mark.parametrize("model", [_power, _level, _resized, _by_a_float, _smallest_of_one])
def test_a_number_read_back_from_a_tensor_is_followed(
    model: Callable[[Tensor], Tensor], tmp_path: pathlib.Path
) -> None:
    check(model, tmp_path, (7, 4), [(2, 4), (3, 4), (9, 4), (300, 4)])


def test_of_two_exports_at_once_the_one_that_ends_first_takes_nothing_from_the_other() -> None:
    names = {"math": math, "root": math.sqrt}
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(conversions.followed_in([names]))
    second.enter_context(conversions.followed_in([names]))
    replaced = dict(names)
    assert replaced["math"] is not math
    assert {"len", "min", "max"} <= replaced.keys()
    first.close()
    assert names == replaced
    second.close()
    assert names == {"math": math, "root": math.sqrt}


def test_numbers_are_followed_in_the_cells_of_a_notebook() -> None:
    cells = [
        "def one_more(n):\n    return int(n) + 1\n",
        "def model(x, n):\n    for _ in range(one_more(n)):\n        x = x * 2\n    return x\n",
    ]
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        file = f"<cell {number}>"
        linecache.cache[file] = len(cell), None, cell.splitlines(keepends=True), file
        exec(compile(cell, file, "exec"), names)
    program = onnxport.export(names["model"], (torch.ones(3), torch.tensor(2)))
    for n in (0, 5):
        torch.testing.assert_close(program(torch.ones(3), torch.tensor(n)), torch.full((3,), 2.0 ** (n + 1)))
