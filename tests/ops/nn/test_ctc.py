from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as nnf

from tests.ops.harness import Case, F, I, X, table

DOUBLE = (torch.float32, torch.float64)  # torch has this loss for these alone


def repeated(shape: tuple[int, ...]) -> torch.Tensor:
    """Labels of which some follow on themselves."""
    return torch.randint(1, 3, shape, generator=torch.Generator().manual_seed(sum(shape)))


def lengths(*numbers: int) -> Callable[[tuple[int, ...]], torch.Tensor]:
    return lambda shape: torch.tensor(numbers)


def loss(**options: Any) -> Callable[..., torch.Tensor]:
    def call(x: torch.Tensor, targets: torch.Tensor, inputs: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return nnf.ctc_loss(x.log_softmax(-1), targets, inputs, given, **options)

    return call


def fixed(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nnf.ctc_loss(x.log_softmax(-1), targets, [11, 9], [3, 4], reduction="none")


ROWS = [F(11, 3, 5), X(3, 4, make=repeated), X(3, make=lengths(11, 7, 9)), X(3, make=lengths(4, 0, 3))]
JOINED = [F(11, 3, 5), X(7, make=repeated), X(3, make=lengths(11, 7, 9)), X(3, make=lengths(4, 0, 3))]
SHORT = [F(5, 2, 5), X(2, 4, make=repeated), X(2, make=lengths(5, 3)), X(2, make=lengths(2, 4))]

CASES = [
    Case("mean", loss(), ROWS, since=11, dtypes=DOUBLE),
    Case("sum", loss(reduction="sum"), ROWS, since=11, dtypes=DOUBLE),
    Case("none", loss(reduction="none", blank=2), ROWS, since=11, dtypes=DOUBLE),
    Case("joined", loss(reduction="none"), JOINED, since=11, dtypes=DOUBLE),
    Case("impossible", loss(reduction="none"), SHORT, since=11, dtypes=DOUBLE),
    Case("zero-infinity", loss(reduction="none", zero_infinity=True), SHORT, since=11, dtypes=DOUBLE),
    Case("numbers", fixed, [F(11, 2, 5), I(2, 4, low=1)], since=11, dtypes=DOUBLE),
    Case("numbers-joined", fixed, [F(11, 2, 5), I(7, low=1)], since=11, dtypes=DOUBLE),
    Case("dynamic", lambda x, y: fixed(x[:11], y), [F(11, 2, "c"), I(2, "s", low=1, high=3)], since=11, dtypes=DOUBLE),
    Case(
        "single",
        lambda x, t: nnf.ctc_loss(x.log_softmax(-1), t, torch.tensor(11), torch.tensor(3)),
        [F(11, 5), I(3, low=1)],
        since=11,
        dtypes=DOUBLE,
    ),
]

test_ctc = table(CASES)
