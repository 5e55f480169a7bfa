"""Random programs that compute with sizes in Python: a file is right at every size, or there is an error.

PROGRAMS=500 python -m pytest tests/capture/paths/test_random_programs.py

tries as many programs instead of the few that CI does. A program that fails is shown as a line for ``CASES``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import onnxport
from tests.capture.paths.programs import Case, check, program

# The smallest forms of programs that were wrong.
CASES = [
    # A module that is another one in each run.
    Case('n = x.shape[1]; k = eval("int(k) // 3", {"k": n})', "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = n % 8 // 7", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = n & 4", "x * k", (3, 16), "bn"),
    Case("n = x.shape[1]; k = int(n / 50)", "x * k", (3, 16), "n"),
    Case("n = x.shape[1]; k = int(n ** 0.5 / 4)", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = round(math.log2(n) / 4)", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = int(math.log2(math.sqrt(n.bit_length()) + 1))", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = round(n // 16 // 7 // 3 / 8)", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = min(n // 32 / 16, 5)", "x * k", (3, 9), "n"),
    Case("n = x.shape[1]; k = int(n != 5)", "x * k", (3, 33), "n"),
    Case("n = x.shape[1]; k = n - 8 or 2", "x * k", (3, 9), "n"),
    Case("n = x.shape[1]; k = int(bool(n - 5))", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = 2 if n % 5 else n", "x * k", (3, 33), "n"),
    Case("n = x.shape[1]; k = rounded(n, 32)", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = rounded(n, 4) - 4", "x[:, :k]", (3, 33), "n"),
    Case("n = x.shape[1]; k = halved(n / 50)", "x * k", (3, 20), "n"),
    Case("b, n = x.shape[0], x.shape[1]; k = int(b == 5)", "x * k", (2, 33)),
    Case("b, n = x.shape[0], x.shape[1]; k = 1 if b % 5 else n", "x * k", (3, 9)),
    Case("b, n = x.shape[0], x.shape[1]; k = min((n + b) % 10, 2)", "x * k", (4, 20)),
    Case("b, n = x.shape[0], x.shape[1]; k = halved(n if n > 4 else b)", "x[:, :k]", (2, 12)),
    Case("n = x.shape[1]; k = min(n, 4, n)", "x * k", (3, 20), "n"),
    Case("n = x.shape[1]; k = limited(n, 7, 17)", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = limited(n // 16, 3, 5)", "x * k", (3, 33), "n"),
    Case("n = x.shape[1]; k = levels(n)", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = 1 if n <= 16 else 2 if n <= 300 else 3", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = int(n > 7 and n < 402)", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = halved(n if n > 33 else 7)", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; m = 1 if n == 402 else 2; k = 1 if n < 32 else 2", "x * k * m", (3, 12), "n"),
    Case("n = x.shape[1]; m = min(n, 4); k = rounded(n, 4) - 4", "x[:, :k]", (3, 33), "n"),
    Case("n = x.shape[1]; k = next(i for i in (8, 64, 512, 9999) if i >= n)", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; k = n // 50 + 1", "x[:, ::k]", (3, 16), "n"),
    Case("b, n = x.shape[0], x.shape[1]; k = rounded(b, 2) + rounded(n, 8)", "x * k", (4, 33)),
    Case("b, n = x.shape[0], x.shape[1]; k = int(b > 5 and n > 9)", "x * k", (4, 9)),
    Case("b, n = x.shape[0], x.shape[1]; k = (3 >= b) if n > 16 else b", "x * k", (2, 16)),
    Case("n = x.shape[1]; m = halved(round(n / 3)); k = int(m ** 0.5) // 32", "x * k", (3, 20), "n"),
    Case(
        "b, n, c = x.shape; m = levels(n); k = (divmod(b, 8)[0] if n % 4 else m); p = abs(k) % 5",
        "torch.eye(p) + x[0, 0, 0]",
        (3, 33),
    ),
    Case(
        "b, n = x.shape[0], x.shape[1]; "
        "m = max(halved(round(n / 3)), (int(math.sqrt(n)) if n + n > 16 and n < 33 else n)); "
        "k = int(m ** 0.5) // (b + 32)",
        "x.sum(1) + torch.tensor(k)",
        (2, 20),
    ),
    Case("n = x.shape[1]; k = levels(levels(n)) // 2", "x * k", (3, 12), "n"),
    # Conditions of one line are others in another run.
    Case("n = x.shape[1]; k = min(n, 4, n) + min(n // 2, 9, n)", "x * k", (3, 20), "n"),
    Case("n = x.shape[1]; k = halvings(n, 3)", "x * k", (3, 20), "n"),
    Case("b, n, c = x.shape; k = halvings(n, b) * multiple(n, 3)", "x * k", (3, 20)),
    Case("b, n, c = x.shape; k = sum(i < n for i in (b, 7, b + 40))", "x * k", (3, 20)),
    Case("b, n, c = x.shape; k = first(n, sorted((b, 9, 40)))", "x * k", (3, 20)),
    Case("b, n, c = x.shape; k = [n, b, 5].index(max(n, b, 5))", "x * k", (4, 6)),
    # Texts, and numbers that are lost on one side of a condition.
    Case("n = x.shape[1]; k = len(f'{n}')", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = int(f'{n}'[-1])", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = int(str(n)) // 3", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = (len(f'{n}') + 4).bit_length()", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = int('%d' % (n // 4)) // 7", "x * k", (3, 20), "n"),
    Case("b, n, c = x.shape; k = math.gcd(b if n > 33 else 2, 2)", "x * k", (3, 33)),
    Case("b, n, c = x.shape; k = len(str(n if b % 3 else b)) + limited(n, 10, 17)", "x * k", (4, 20)),
    Case("n = x.shape[1]; k = digits(int(torch.tensor([n, 2]).max()))", "x * k", (2, 16), "n"),
    Case("n = x.shape[1]; k = TABLE[n % 8]", "x * k", (3, 12), "n"),
    # A number that is plain on some paths; tables that say the same at a few places.
    Case(
        "b = int(x.shape[0]); n = int(x.shape[1]); m = round(((n if n > b else b) - n) / 7); "
        "k = math.floor(levels(m) / 16)",
        "x.sum(1) + torch.tensor(k)",
        (4, 12),
    ),
    Case("b, n = x.shape[0], x.shape[1]; k = round(TABLE[b % 8] / 10) + n", "x * k", (3, 16)),
    # An error is raised out of a context while another one is handled.
    Case(
        "n = x.numel() // (x.shape[0] * x.shape[2]); b = x.shape[0]; m = limited(int(abs(b) ** 0.5), 3, 33); "
        "k = divmod(max(m, n), 3)[1]; s = abs(k)",
        "x[:, :: s + 1]",
        (2, 16),
    ),
]
# What Python can do with a size works.
FOLLOWED = [
    Case("n = x.shape[1]; k = pow(n, 2, 7) + pow(2, n % 9)", "x * k", (3, 12), "n"),
    Case("n = x.shape[1]; k = ~n + round(n, -1)", "x * k", (3, 12), "n"),
    Case("b, n, c = x.shape; k = graded(n, 8, 100) + b", "x * k", (3, 12)),
    Case("n = x.shape[1]; k = digits(n)", "x * k", (3, 12), "n"),
    # Ranges.
    Case("n = x.shape[1]; k = -len(range(0, n, 3))", "x * k", (3, 6), "n"),
    Case("n = x.shape[1]; m = len(range(0, n, 3)); k = len(range(0, m, 4)) - m", "x * k", (4, 6), "n"),
    Case("b, n, c = x.shape; k = len(range(n, b, -2)) * len(range(b, 50, n))", "x * k", (3, 9)),
    Case("n = x.shape[1]; m = len(range(n)); k = range(n // 2)", "x[:, k] * max(range(m))", (3, 9)),
    Case("n = x.shape[1]; k = len(range(n)[::3])", "x * k", (3, 9)),
    Case("n = x.shape[1]; k = torch.tensor(range(n))", "x[:, k] * k[:, None]", (3, 9)),
]
SEEDS = range(int(os.environ.get("PROGRAMS", "42")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_is_right_or_refused(tmp_path: Path, seed: int) -> None:
    check(program(seed), tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.lines)
def test_a_program_that_was_wrong_is_right_or_refused(tmp_path: Path, case: Case) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", FOLLOWED, ids=lambda case: case.lines)
def test_a_program_is_right(tmp_path: Path, case: Case) -> None:
    assert check(case, tmp_path) is None


def test_a_size_in_a_message_costs_no_run() -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(f"{x.shape[1]} columns" + str(x.shape[0]))
        return x * 2

    counts = []
    for message in (function, lambda x: calls.append("") or x * 2):
        calls.clear()
        onnxport.export(message, torch.randn(3, 12), dynamic_axes={"x": {1: "n"}}, input_names=["x"], verify=False)
        counts.append(len(calls))
    assert counts[0] == counts[1]
