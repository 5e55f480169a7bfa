from __future__ import annotations

import torch

from tests.ops.harness import INTEGERS, Case, Input, table


def whole(*shape: int | str) -> Input:
    """Small enough for the least common multiple of any two to fit eight bits."""
    return Input(shape, low=-11, high=11)


CASES = [
    Case("gcd", torch.gcd, [whole("n", "c"), whole("n", "c")], since=12, base=torch.int64, dtypes=INTEGERS),
    Case("gcd-broadcast", torch.gcd, [whole("n", 1), whole("c")], since=12, base=torch.int64, dtypes=()),
    Case("gcd-zero", lambda x: torch.gcd(x, x * 0), [whole("n")], since=12, base=torch.int64, dtypes=INTEGERS),
    Case(
        "gcd-large",
        lambda x: torch.gcd(x * 1_000_003, x * 999_983),
        [whole("n")],
        since=12,
        base=torch.int64,
        dtypes=(),
    ),
    Case("lcm", torch.lcm, [whole("n", "c"), whole("n", "c")], since=12, base=torch.int64, dtypes=INTEGERS),
    Case("lcm-zero", lambda x: torch.lcm(x, x * 0), [whole("n")], since=12, base=torch.int64, dtypes=()),
]

test_divisors = table(CASES)
