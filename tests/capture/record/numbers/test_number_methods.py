"""Sizes have the methods of int and of float, and what Python computes with them is followed."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.record.at_sizes import check

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "round": lambda x: x[: round(x.shape[0] / 2)],
    "round to digits": lambda x: x + round(x.shape[0] / 3, 1),
    "bit_length": lambda x: x + x.shape[0].bit_length(),
    "power": lambda x: x + x.shape[0] ** x.shape[1] + x.shape[0] ** 2,
    "power of two": lambda x: x * 2 ** (x.shape[0] // 50),
    "modular power": lambda x: x + pow(x.shape[0], 2, 7),
    "divmod": lambda x: x + divmod(x.shape[0], 3)[0] * 10 + divmod(x.shape[0], 3)[1],
    "table of two": lambda x: x + {True: 1, False: 2}[x.shape[0] > 6],
    "is_integer": lambda x: x + (1 if (x.shape[0] / 2).is_integer() else 2),
    "as_integer_ratio": lambda x: x + x.shape[0].as_integer_ratio()[0],
    "last digit": lambda x: x + int(str(x.shape[0])[-1]),
    "digits": lambda x: x + len(str(x.shape[0] * 3)),
    "bits": lambda x: x + (x.shape[0] & 3) + (x.shape[0] | 8) + (x.shape[0] << 1) + (x.shape[0] >> 1),
}
# Only Python knows what these are at another size.
NOT_FOLLOWED: dict[str, Callable[[Tensor], Tensor]] = {
    "bit_count": lambda x: x + x.shape[0].bit_count(),
    "to_bytes": lambda x: x + x.shape[0].to_bytes(2, "little")[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_sizes(name: str, tmp_path: pathlib.Path) -> None:
    check(PROGRAMS[name], tmp_path, (8, 4), ((5, 4), (9, 4), (100, 4), (333, 4)))


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_numbers_that_only_python_knows(name: str) -> None:
    call, x = NOT_FOLLOWED[name], torch.randn(7, 3)
    with pytest.raises(onnxport.ExportError, match="in a way that the file cannot follow"):
        onnxport.export(call, (x,), io.BytesIO(), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert onnxport.export(call, (x,), io.BytesIO()).verification.passed
