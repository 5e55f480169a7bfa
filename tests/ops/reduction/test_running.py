from __future__ import annotations

import torch

from tests.ops.harness import ALL, FLOATS, Case, F, X, table

NAN, INF = float("nan"), float("inf")


def with_nan(shape: tuple[int, ...]) -> torch.Tensor:
    """NaN at the third of each row and at its last."""
    x = torch.rand(shape, generator=torch.Generator().manual_seed(3)).mul(3).round()
    x[..., 2] = NAN
    x[..., -1] = NAN
    return x


def with_infinities(shape: tuple[int, ...]) -> torch.Tensor:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(3)) * 200 - 100
    x[0, 0] = -INF
    x[0, 1] = -INF
    x[-1, 1] = INF
    return x


WITH_BFLOAT16 = (*FLOATS, torch.bfloat16)

CASES = [
    Case("cummax", lambda x: torch.cummax(x, 1), [F("n", "c", 3)], since=9, dtypes=ALL, graph=["Scan"]),
    Case("cummax-ties", lambda x: torch.cummax(x.floor(), 0), [F("t", 3)], since=9, dtypes=WITH_BFLOAT16),
    Case("cummax-nan", lambda x: torch.cummax(x, 1), [X(2, "t", make=with_nan)], since=9, keywords={"exact_nan": True}),
    Case("cummax-0-dim", lambda x: torch.cummax(x, 0), [F()]),
    Case("cummax-empty", lambda x: torch.cummax(x, 0), [F(0, 3)]),
    Case("cummin", lambda x: torch.cummin(x, -1), [F("n", "t")], since=9, dtypes=ALL),
    Case("cummin-ties", lambda x: torch.cummin(x.floor(), 0), [F("t", 3)], since=9),
    Case("cummin-nan", lambda x: torch.cummin(x, 1), [X(2, "t", make=with_nan)], since=9, keywords={"exact_nan": True}),
    Case("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), [F("n", "t", 3)], since=9, dtypes=WITH_BFLOAT16),
    Case("logcumsumexp-far", lambda x: torch.logcumsumexp(x * 100, 0), [F("t")], since=9),
    Case("logcumsumexp-infinite", lambda x: torch.logcumsumexp(x, 1), [X(3, "t", make=with_infinities)], since=9),
    Case("logcumsumexp-0-dim", lambda x: torch.logcumsumexp(x, 0), [F()]),
]

test_running = table(CASES)
