"""``with`` in scripted programs: the methods that it calls are read as others are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)


@torch.jit.script
class Doubled:
    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __enter__(self) -> Tensor:
        self.x = self.x * 2
        return self.x

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.x = self.x + 1


def entered_and_left(x: Tensor) -> tuple[Tensor, Tensor]:
    doubled = Doubled(x)
    with doubled as y:
        z = y + x
    return z, doubled.x


def without_gradients(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        with torch.no_grad():
            x = x + i
    return x


test_with = table(
    [
        Program("entered_and_left", entered_and_left, (X,), [(-X,)]),
        Program("without_gradients", without_gradients, (X, 2), [(X, 0), (-X, 5)]),
    ]
)
