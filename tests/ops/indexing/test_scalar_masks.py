"""Masks without dimensions: all of a tensor or nothing of it, read and written."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from onnxport.verification.runtime import Session

READS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all": lambda x: x[x.sum() > 0],
    "none": lambda x: x[x.sum() < 0],
    "sum": lambda x: x[x.sum() > 0].sum(0) * 2,
    "second": lambda x: x[:, x.sum() > 0],
    "with_a_place": lambda x: x[x.sum() > 0, 0],
    "with_an_axis": lambda x: x[None, x.sum() > 0],
    "two": lambda x: x[x.sum() > 0, x.mean() > -1],
    "of_a_scalar": lambda x: x.sum()[x.sum() > 0],
    "bytes": lambda x: x[(x.sum() > 0).to(torch.uint8)],
    "masked_select": lambda x: x.masked_select(x.sum() > 0),
    "nonzero": lambda x: (x.sum() > 0).nonzero(),
    "two_sums": lambda x: x[x.sum() > 0].sum() + 2 * x[x.mean() > 0.5].sum(),
    "two_joined": lambda x: torch.cat([x[x.sum() > 0].flatten(), x[x.mean() > 0.5].flatten()]),
    "how_many": lambda x: x[x.sum() > 0].shape[0] + x,
}


def number(x: torch.Tensor) -> None:
    x[x.sum() > 0] = 3.0


def tensor(x: torch.Tensor) -> None:
    x[x.sum() > 0] = x.mean()


def whole(x: torch.Tensor) -> None:
    x[x.sum() > 0] = x * 2


def added(x: torch.Tensor) -> None:
    x[x.sum() > 0] += 1


def row(x: torch.Tensor) -> None:
    x[0][x.sum() > 0] = x[0] * 2 + 1


def single(x: torch.Tensor) -> None:
    x[x.sum() > 0, 0] = 5.0


def twice(x: torch.Tensor) -> None:
    x[x.sum() > 0] = x.flip(0) * 2 - 1
    x[x.sum() > 0] = x * 3


WRITES = (number, tensor, whole, added, row, single, twice)


def written(write: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        write(x)
        return x

    return call


CALLS: dict[str, Callable[..., Any]] = {**READS, **{f"write_{write.__name__}": written(write) for write in WRITES}}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("sign", [1, -1], ids=["taken", "left_out"])
@pytest.mark.parametrize("name", CALLS)
def test_scalar_mask(name: str, sign: int, dynamic: bool) -> None:
    """Whatever the example shows, the file takes all or nothing as its own data say."""
    call, target = CALLS[name], io.BytesIO()
    axes = {"x": {0: "n"}} if dynamic else None
    onnxport.export(call, (sign * torch.rand(3, 4),), target, input_names=["x"], dynamic_axes=axes)
    session = Session(target.getvalue())
    for size in (3, 1, 5, 8) if dynamic else (3,):
        for x in (torch.rand(size, 4), -torch.rand(size, 4), torch.rand(size, 4) / 2):
            (actual,) = session.run({"x": x})
            expected = call(x)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected)
