"""What Python reads from a tensor is what was written to its memory last, not what the tensor was made of."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.record.at_sizes import check


def _element(x: Tensor) -> Tensor:
    counts = torch.zeros_like(x)
    counts[0] = (x > 0).sum()
    return x[: int(counts[0])] * 2


def _view_made_before(x: Tensor) -> Tensor:
    sums = torch.zeros(4)
    flat = sums.view(-1)
    sums.add_(1)
    sums[0] = x.abs().sum()
    return x * flat[0].item()


def _size(x: Tensor) -> Tensor:
    lengths = torch.zeros(3)
    lengths[1:].fill_(x.shape[0])
    return x[: int(lengths[1]) - 1]


def _part_of_an_axis(x: Tensor) -> Tensor:
    ones = torch.zeros(x.shape[0])
    ones[1:] = 1
    return x * ones.sum().item()


def _to_and_fro(x: Tensor) -> Tensor:
    left, right = torch.zeros(2), torch.zeros(2)
    left[0] = right[1]
    right[1] = x.abs().sum()
    left[0] = right[1]
    return x * left[0].item()


@pytest.mark.parametrize("model", [_element, _view_made_before, _size, _part_of_an_axis, _to_and_fro])
def test_a_number_read_after_a_write(model: Callable[[Tensor], Tensor], tmp_path: pathlib.Path) -> None:
    check(model, tmp_path, (6,), [(3,), (9,), (40,)])


def test_a_condition_read_after_a_write_is_told() -> None:
    def model(x: Tensor) -> Tensor:
        sums = torch.zeros(4)
        sums[1:3].fill_(x.abs().sum())
        return x * 2 if sums[1] > 3 else x

    with pytest.warns(onnxport.TraceWarning, match=r"test_reads_after_writes.py:\d+.*used as a condition"):
        onnxport.export(model, (torch.ones(6),))
