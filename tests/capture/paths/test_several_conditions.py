"""Conditions on sizes that turn independently of each other, some of which are asked only where others turn."""

from __future__ import annotations

import pathlib

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
