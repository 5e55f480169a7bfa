"""Sizes that a model computes with in numpy: single numbers keep their expressions, arrays are explained."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.capture.record.at_sizes import check

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "ceil": lambda x: functional.pad(x, (0, 0, 0, int(np.ceil(x.shape[0] / 7)) * 7 - x.shape[0])),
    "astype": lambda x: functional.pad(x, (0, 0, 0, np.ceil(x.shape[0] / 7).astype(int) * 7 - x.shape[0])),
    "item": lambda x: x[: np.floor(x.shape[0] / 3).astype(np.int64).item() + 1],
    "square root": lambda x: x[: int(np.sqrt(x.shape[0]))],
    "logarithm": lambda x: x * float(np.log2(x.shape[0])),
    "numpy integer": lambda x: x * float(np.int64(3) * x.shape[0]),
    "minimum": lambda x: x[: int(np.minimum(x.shape[0], 20))],
    "product": lambda x: x * int(np.prod(x.shape)),
    "array of sizes": lambda x: x + torch.as_tensor(np.array([x.shape[0], x.shape[1], 1, 2])).float(),
    "table of sizes": lambda x: (
        x @ torch.tensor(np.array([[x.shape[0], 1], [2, 3], [4, 5], [6, x.shape[0] * 2]])).float()
    ),
    "array of one number": lambda x: x + torch.from_numpy(np.full((x.shape[0], 4), 3, dtype=np.float32)),
    "array that counts": lambda x: x * torch.from_numpy(np.arange(x.shape[0], dtype=np.float32))[:, None],
    "array divided": lambda x: x * int(np.ceil(np.array(x.shape[0]) / 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_in_numpy(name: str, tmp_path: pathlib.Path) -> None:
    check(PROGRAMS[name], tmp_path, (8, 4), ((5, 4), (9, 4), (100, 4), (333, 4)))
