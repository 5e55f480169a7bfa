from __future__ import annotations

import torch

from tests.ops.harness import ALL, Case, F, X, table


def runs(shape: tuple[int, ...]) -> torch.Tensor:
    """Small whole numbers, of which many are as the one before."""
    steps = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(sum(shape)))
    return (steps.cumsum(0) % 3).to(torch.float32)


def rows(shape: tuple[int, ...]) -> torch.Tensor:
    """Rows, of which many are as the one before."""
    return runs((shape[0], 1)).expand(shape[0], shape[1]).contiguous()


CASES = [
    Case("unique", torch.unique, [X("t", make=runs)], since=11, dtypes=ALL),
    Case(
        "unique-all",
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        [X("n", "t", make=runs)],
        since=11,
    ),
    Case(
        "unique-rows",
        lambda x: torch.unique(x, return_inverse=True, return_counts=True, dim=0),
        [X("t", 3, make=rows)],
        since=11,
    ),
    Case(
        "unique-columns",
        lambda x: torch.unique(x.mT, return_inverse=True, return_counts=True, dim=1),
        [X("t", 3, make=rows)],
        since=11,
    ),
    Case("unique-inverse", lambda x: torch.ops.aten._unique(x, True, True), [X("t", make=runs)], since=11),
    Case("consecutive", torch.unique_consecutive, [X("t", make=runs)], since=11, dtypes=ALL),
    Case("consecutive-all", lambda x: torch.unique_consecutive(x, True, True), [X("n", "t", make=runs)], since=11),
    Case(
        "consecutive-rows", lambda x: torch.unique_consecutive(x, True, True, dim=0), [X("t", 3, make=rows)], since=11
    ),
    Case(
        "consecutive-columns",
        lambda x: torch.unique_consecutive(x.mT, True, True, dim=1),
        [X("t", 3, make=rows)],
        since=11,
    ),
    Case("consecutive-one", lambda x: torch.unique_consecutive(x, True, True), [F(1)], since=11),
]

test_uniqueness = table(CASES)
