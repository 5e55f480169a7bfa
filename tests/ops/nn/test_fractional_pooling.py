from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as nnf

from tests.ops.harness import Case, F, X, table

DOUBLE = (torch.float32, torch.float64)


def pooled(function: Callable[..., Any], kernel: Any, size: Any) -> Callable[..., Any]:
    return lambda x, samples: function(x, kernel, output_size=size, return_indices=True, _random_samples=samples)


def whole(shape: tuple[int, ...]) -> torch.Tensor:
    """Whole numbers, of which many are equal."""
    return torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(sum(shape))).to(torch.float32)


CASES = [
    Case(
        "plane",
        pooled(nnf.fractional_max_pool2d, 3, (2, 3)),
        [F("n", 3, 9, 10), F("n", 3, 2, low=0, high=1)],
        since=11,
        dtypes=DOUBLE,
    ),
    Case(
        "plane-ties",
        pooled(nnf.fractional_max_pool2d, 2, 4),
        [X(2, 3, 9, 10, make=whole), F(2, 3, 2, low=0, high=1)],
        since=11,
        dtypes=DOUBLE,
    ),
    Case(
        "plane-dynamic",
        pooled(nnf.fractional_max_pool2d, (2, 3), (3, 2)),
        [F(2, 3, "h", "w"), F(2, 3, 2, low=0, high=1)],
        since=11,
        dtypes=DOUBLE,
    ),
    Case(
        "plane-single",
        pooled(nnf.fractional_max_pool2d, 3, (1, 3)),
        [F(3, 9, 10), F(1, 3, 2, low=0, high=1)],
        since=11,
        dtypes=DOUBLE,
    ),
    Case(
        "volume",
        pooled(nnf.fractional_max_pool3d, (3, 2, 2), (2, 3, 4)),
        [F("n", 3, 9, 8, 7), F("n", 3, 3, low=0, high=1)],
        since=11,
        dtypes=DOUBLE,
    ),
    Case(
        "random",
        lambda x: nnf.fractional_max_pool2d(x, 3, output_ratio=(0.5, 0.5)),
        [F(2, 3, 9, 10)],
        since=11,
        dtypes=DOUBLE,
        content=False,
        runs_until=21,  # ONNX Runtime 1.31 has no newer kernel for RandomUniform,
    ),
]

test_fractional_pooling = table(CASES)
