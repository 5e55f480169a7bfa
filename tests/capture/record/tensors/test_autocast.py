"""Autocast inside of a recorded model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.capture.record.at_sizes import check

LINEAR = nn.Linear(4, 4)
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True).eval()


class Cast(nn.Module):
    """A model or function whose first result is computed under autocast."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = self.function(x)
        first = result[0] if isinstance(result, tuple) else result
        assert isinstance(first, torch.Tensor)
        return first.float()


def off_inside(x: torch.Tensor) -> torch.Tensor:
    y = LINEAR(x)
    with torch.autocast("cpu", enabled=False):
        return LINEAR(y.float())


CASES: dict[str, tuple[Callable[..., object], Sequence[int]]] = {
    "layers": (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Softmax(-1), nn.LayerNorm(4)), (3, 4)),
    "one layer twice": (nn.Sequential(LINEAR, LINEAR), (3, 4)),
    "einsum": (lambda x: torch.einsum("bi,bj->bij", x, x), (3, 4)),
    "einsum of products": (lambda x: torch.einsum("bij,bkj->bik", x, x), (3, 4, 5)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (3, 4, 5, 8)),
    "attention layer": (lambda x: ATTENTION(x, x, x)[0], (3, 5, 8)),
    "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), (3, 3, 8, 8)),
    "lstm": (nn.LSTM(4, 4, batch_first=True), (3, 3, 4)),
    "gru": (nn.GRU(4, 4, batch_first=True), (3, 3, 4)),
    "loss in full precision": (lambda x: F.mse_loss(x.bfloat16(), 2 * x.bfloat16()), (3, 3, 4)),
    "widest of a list": (lambda x: torch.cat([x.bfloat16(), x]), (3, 3, 4)),
    "views": (lambda x: LINEAR(x.view(x.shape[0] * 3, -1)).view(x.shape[0], 3, -1), (3, 3, 4)),
    "off inside": (off_inside, (3, 4)),
    "tensordot": (lambda x: torch.tensordot(x, x, dims=([1], [1])).sum(1), (3, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_casts_are_in_the_file(case: str, tmp_path: pathlib.Path) -> None:
    function, example = CASES[case]
    others = [(5, *example[1:]), (2, *example[1:])]
    check(Cast(function), tmp_path, example, others, tolerance=2e-2)
