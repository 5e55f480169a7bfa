"""Libraries that keep what they made for sizes in caches, and compare sizes with numbers that Python dropped."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.capture.record.at_sizes import check


class Signature:
    """What a call is known by: the sizes of its argument."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash(self.shape)


@functools.cache
def _compiled(signature: Signature) -> Callable[[Tensor], Tensor]:
    rows, columns = signature.shape
    return lambda x: x.reshape(columns, rows) * rows


def _looked_up_by_an_object(x: Tensor) -> Tensor:
    return _compiled(Signature(x.shape))(x)


def _solved(sizes: Any) -> list[int]:
    """The numbers as a solver gives them back: without their expressions."""
    return [int(number) for number in np.asarray([*sizes]).tolist()]


def _asserted(x: Tensor) -> Tensor:
    rows, columns = _solved(x.shape)
    assert (x.shape[0], x.shape[1]) == (rows, columns)
    return x.reshape(columns, rows) + rows


def _divided(x: Tensor) -> Tensor:
    (rows,) = _solved(x.shape[:1])
    if x.numel() % rows != 0:
        raise ValueError("no whole rows")
    return x.reshape(rows, -1) / rows


@pytest.mark.parametrize("model", [_looked_up_by_an_object, _asserted, _divided])
@pytest.mark.parametrize("called_before", [False, True])
def test_they_are_followed(model: Callable[[Tensor], Tensor], called_before: bool, tmp_path: pathlib.Path) -> None:
    if called_before:
        model(torch.randn(7, 4))
    check(model, tmp_path, (7, 4), [(2, 4), (3, 4), (8, 4), (300, 4)])


class _Positions(torch.nn.Module):
    """A table of learned positions: there are no more than it has rows. Their number went through a text."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(40, 3)

    def forward(self, x: Tensor) -> Tensor:
        count = int(str(x.shape[1]))
        last: Tensor = self.table(torch.arange(count)).flip(0)
        return x + last


def test_a_number_that_ends_where_the_model_does_is_followed(tmp_path: pathlib.Path) -> None:
    check(_Positions(), tmp_path, (2, 9, 3), [(1, 1, 3), (3, 8, 3), (2, 39, 3), (5, 40, 3)])
