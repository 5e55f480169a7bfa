"""Conditions on sizes that turn independently of each other, some of which are asked only where others turn."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

import pytest
from torch import Tensor, nn
from torch.nn import functional as F

from tests.capture.record.at_sizes import check


class Upsampled(nn.Module):
    """As U-Nets of diffusers do it: back to the sizes of the skip connection only where these are odd, and with a copy
    of large batches."""

    def forward(self, x: Tensor) -> Tensor:
        size = None
        for length in x.shape[-2:]:
            if length % 2 != 0:
                size = x.shape[-2:]
                break
        y = F.max_pool2d(x, 2, ceil_mode=True)
        if y.shape[0] >= 64:
            y = y.contiguous()
        factor = 2 if size is None else max(f / s for f, s in zip(size, y.shape[-2:], strict=True))
        if y.numel() * factor > 2**31:
            y = y.contiguous()
        y = F.interpolate(y, scale_factor=2.0) if size is None else F.interpolate(y, size=size)
        return x + y


def test_conditions_of_which_one_is_asked_less_where_another_turns(tmp_path: pathlib.Path) -> None:
    sizes = [(1, 3, 16, 16), (2, 3, 15, 16), (3, 3, 16, 9), (64, 3, 7, 5), (65, 3, 6, 4), (2, 3, 1, 1), (70, 3, 64, 33)]
    check(Upsampled(), tmp_path, (2, 3, 16, 16), sizes)


def test_a_model_that_finds_nothing_at_some_sizes(tmp_path: pathlib.Path) -> None:
    """It raises StopIteration there, and takes the others."""
    check(lambda x: x * next(k for k in (4, 8) if k >= x.shape[0]), tmp_path, (3, 4), ((5, 4), (4, 4), (8, 4)))


def _both(x: Tensor) -> Tensor:
    return x * (3 if x.shape[0] > 40 and x.shape[1] > 50 else 2)


def _either(x: Tensor) -> Tensor:
    return x * (3 if x.shape[0] > 40 or x.shape[1] > 50 else 2)


def _behind(x: Tensor) -> Tensor:
    factor = 2.0
    if x.shape[0] % 7 == 3 and x.shape[1] % 37 == 5:
        factor = 3.0
    return x * factor


@pytest.mark.parametrize("example", [(24, 26), (45, 60), (45, 26), (24, 79)], ids=str)
@pytest.mark.parametrize("model", [_both, _either, _behind])
def test_a_number_of_two_conditions_of_which_one_is_asked_behind_the_other(
    model: Callable[[Tensor], Tensor], example: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    """Where a run does not ask a condition, its number is the same for both outcomes of it."""
    check(model, tmp_path, example, list(itertools.product((8, 10, 17, 41, 45, 60), (5, 20, 42, 51, 79))))
