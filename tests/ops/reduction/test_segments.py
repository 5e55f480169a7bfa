from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.ops.harness import Case, F, X, table


def reduced(how: str, **options: Any) -> Callable[..., torch.Tensor]:
    return lambda x, lengths: torch.segment_reduce(x, how, lengths=lengths, **options)


def ends(*numbers: int) -> Callable[[tuple[int, ...]], torch.Tensor]:
    return lambda shape: torch.tensor(numbers, dtype=torch.int32)


def grouped(x: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch._grouped_mm(x, weight, offs=offsets)


def experts(x: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.grouped_mm(x, weight.transpose(-2, -1), offs=offsets)


def to_the_end(x: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch._grouped_mm(x, weight, offs=torch.cat([offsets, offsets.new_full((1,), x.shape[0])]))


HALVES = (torch.float32, torch.float16, torch.bfloat16)  # torch has no grouped products of doubles
DOUBLE = (torch.float32, torch.float64)
LENGTHS = X(4, make=lambda shape: torch.tensor([2, 0, 3, 1]))
NESTED = X(2, 3, make=lambda shape: torch.tensor([[1, 2, 2], [4, 0, 1]]))
OFFSETS = X(5, make=lambda shape: torch.tensor([0, 2, 2, 5, 6]))

CASES = [
    Case("segment-sum", reduced("sum"), [F(6, "c"), LENGTHS], since=11, dtypes=DOUBLE),
    Case("segment-mean", reduced("mean"), [F(6, "c"), LENGTHS], since=11),
    Case("segment-mean-initial", reduced("mean", initial=2), [F(6), LENGTHS], since=11),
    Case("segment-max", reduced("max"), [F(6, 3, 2), LENGTHS], since=11),
    Case("segment-max-initial", reduced("max", initial=0.5), [F(6), LENGTHS], since=11),
    Case("segment-min", reduced("min", initial=0.5), [F(6, "c"), LENGTHS], since=11),
    Case("segment-prod", reduced("prod", initial=3), [F(6), LENGTHS], since=11),
    Case("segment-nested", reduced("sum", axis=1), [F(2, 5, "c"), NESTED], since=11),
    Case(
        "segment-unsafe",
        reduced("sum", unsafe=True),
        [F("s", 2), X(4, make=lambda shape: torch.tensor([1, 0, 2, 2]))],
        since=11,
    ),
    Case("segment-offsets", lambda x, o: torch.segment_reduce(x, "max", offsets=o), [F(6, "c"), OFFSETS], since=9),
    Case("grouped-rows", grouped, [F(8, 8), F(3, 8, 8), X(3, make=ends(2, 2, 8))], since=13, dtypes=HALVES),
    Case("grouped-experts", experts, [F(8, 8), F(3, 8, 8), X(3, make=ends(0, 5, 8))], since=13, dtypes=HALVES),
    Case("grouped-dynamic", to_the_end, [F("h", 8), F(3, 8, 8), X(2, make=ends(2, 5))], since=13, dtypes=()),
    Case("grouped-columns", grouped, [F(3, 8, 8), F(8, 8), X(3, make=ends(2, 2, 8))], since=13, dtypes=()),
    Case("grouped-inner", grouped, [F(8, 8), F(8, 8), X(3, make=ends(2, 2, 8))], since=13, dtypes=()),
    Case("grouped-whole", torch._grouped_mm, [F(3, 8, 8), F(3, 8, 8)], graph=["MatMul"], dtypes=()),
]

test_segments = table(CASES)
