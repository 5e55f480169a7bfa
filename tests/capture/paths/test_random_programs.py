"""Random programs that compute with sizes in Python: a file is right at every size, or there is an error.

PROGRAMS=500 python -m pytest tests/capture/paths/test_random_programs.py

tries as many programs instead of the few that CI does. A program that fails is shown as a line for ``CASES``.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxport

SOURCE = """
import math
import torch
from torch import Tensor
from torch.nn import functional as F

def halved(n):
    if n % 2 == 0:
        return n // 2
    return 3 * n + 1

def rounded(n, k):
    if n % k:
        n = n + k - n % k
    return n

def limited(n, low, high):
    if n < low:
        return low
    elif n > high:
        return high
    return n

def levels(n):
    if n <= 16:
        return 1
    if n <= 300 and n % 3 != 1:
        return n // 16 + 1
    return min(n // 32, 40)

def forward(x):
    {lines}
    return {use}
"""

# (batch, n): small ones, powers of two and their neighbours, far ones.
SIZES = [
    *[(2, 2), (3, 3), (4, 5), (2, 7), (5, 8), (2, 16), (3, 17), (7, 31), (2, 64), (2, 100)],
    *[(6, 129), (2, 401), (9, 1000), (2, 2047), (3, 4096), (2, 5000)],
]
READS = [
    "b, n = x.shape[0], x.shape[1]",
    "b, n, c = x.shape",
    "b = len(x); n = len(x[0])",
    "b = int(x.shape[0]); n = int(x.shape[1])",
    "b, n = x.size(0), x.size(1)",
    "n = x.numel() // (x.shape[0] * x.shape[2]); b = x.shape[0]",
]
UNARY = [
    "abs({a})",
    "math.ceil({a} / {i})",
    "math.floor({a} / {i})",
    "round({a} / {i})",
    "int({a} / {i})",
    "int({a} * {f})",
    "int(math.sqrt(abs({a})))",
    "math.ceil(math.sqrt(abs({a})))",
    "math.isqrt(abs({a}))",
    "int(abs({a}) ** 0.5)",
    "int(math.log2(abs({a}) + 1))",
    "math.ceil(math.log2(abs({a}) + 1))",
    "({a}).bit_length()",
    "(1 << ({a}).bit_length() % 12)",
    "-{a}",
    "(-{a} // {i})",
    "({a} & {i})",
    "halved({a})",
    "rounded({a}, {i})",
    "limited({a}, {i}, {j})",
    "levels({a})",
    "int(bool({a}))",
    "divmod({a}, {i})[{bit}]",
    "sum(({a}, {i}))",
]
BINARY = [
    *["({a} + {b})", "({a} - {b})", "({a} + {i})", "({a} - {i})", "({a} // {i})", "({a} % {i})", "({a} * {i})"] * 2,
    *["min({a}, {b})", "max({a}, {b})", "min({a}, {i})", "max({a}, {i})", "min({a}, {i}, {b})"],
    *["({a} * {leaf})", "({a} // ({leaf} + {i}))", "({a} % ({leaf} + 1))", "({i} // (abs({a}) + 1))"],
    *["int({a} {order} {b})", "int({a} {order} {j})", "({a} {order} {i}) * {b}"],
    *["({a} if {b} {order} {j} else {i})", "({a} if {a} {order} {b} else {b})", "({a} if {leaf} % {i} else {b})"],
    *["({a} if {b} > {i} and {leaf} {order} {j} else {leaf})", "({a} or {i})"],
]
ORDERS = ["<", "<=", ">", ">=", "==", "!="]
# ``k`` is any number; ``s`` is the same from 0 to some thousands, ``p`` a small one from 0.
USES = [
    *["x * k", "x / (abs(k) + 1)", "x.sum(1) + k", "torch.where(x > 0, x, k)", "x.clamp(max=k)"],
    *["x[:, :k]", "x[:, k:]", "x[:, -s:]", "x[:, s // 3 : s]", "x[:, :: s + 1]", "x[:, k % n]", "x[:, : n - p]"],
    *["torch.arange(s) + x.sum()", "torch.zeros(s, 2) + x[0, 0, 0]", "x.new_ones(2, s) * x[:1, :1, 0]"],
    *["torch.full((s,), 0.5) * x[0, 0, 0]", "torch.arange(s, s + 9) * x[0, 0, 0]", "torch.eye(p) + x[0, 0, 0]"],
    *["F.pad(x, (0, 0, s, p))", "F.pad(x, (p, 0, 0, s), value=1.0)", "x.repeat(1, p, 1)", "x[:1, :3].repeat(p, 1, p)"],
    *["torch.roll(x, k, 1)", "x.narrow(1, 0, min(s, n))", "x[:, :1].expand(-1, s, -1)", "x.sum(1) + torch.tensor(k)"],
    *["torch.linspace(0, 1, s + 2) + x.sum()", "torch.cat([x, x[:, :s]], 1)", "x.flatten(0, 1)[: s * b]"],
]
MOST = 6000  # the largest size of what is made


@dataclass(frozen=True)
class Case:
    """``lines`` compute numbers from the sizes of x, ``use`` computes with them; the sizes of ``axes`` vary."""

    lines: str
    use: str
    example: tuple[int, int]
    axes: str = "bn"


# The smallest forms of programs that were wrong.
CASES = [
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
]
SEEDS = range(int(os.environ.get("PROGRAMS", "42")))


def number(rng: random.Random, names: Sequence[str], depth: int) -> str:
    """An expression of whole numbers that is defined whatever the names are."""
    leaf = rng.choice(names)
    if depth == 0:
        return leaf
    form = rng.choice(rng.choice((UNARY, BINARY)))
    low, high = sorted(rng.choice((2, 3, 4, 5, 7, 8, 10, 16, 32, 50, 100, 401)) for _ in range(2))
    return form.format(
        a=number(rng, names, depth - 1),
        b=number(rng, names, rng.randrange(depth)),
        leaf=leaf,
        i=low,
        j=high + 1,
        f=rng.choice((0.25, 0.5, 0.75, 1.5)),
        order=rng.choice(ORDERS),
        bit=rng.randrange(2),
    )


def program(seed: int) -> Case:
    rng = random.Random(seed)
    lines = [rng.choice(READS), f"m = {number(rng, ['n', 'n', 'b'], rng.randrange(1, 4))}"]
    k = number(rng, ["m", "m", "n", "b"], rng.randrange(1, 3))
    lines += [f"k = {k}" if "m" in names_in(k) else f"k = {k} + m"]
    example = (rng.randrange(2, 5), rng.choice((6, 9, 12, 16, 20, 33)))
    case = Case("; ".join(lines), "k", example, rng.choice(("n", "bn", "bn")))
    largest = max(abs(value(case, *sizes)) for sizes in sizes_of(case))
    lines += [f"s = abs(k){f' % {MOST}' if largest > MOST else ''}", f"p = abs(k){' % 5' if largest > 5 else ''}"]
    use = rng.choice(USES)
    needed = [line for line in lines if line[:2] not in ("s ", "p ") or line[0] in names_in(use)]
    return Case("; ".join(needed), use, example, case.axes)


def names_in(expression: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}


def sizes_of(case: Case) -> list[tuple[int, int]]:
    return [(batch if "b" in case.axes else case.example[0], length) for batch, length in SIZES]


def value(case: Case, batch: int, length: int) -> int:
    """What a program that returns a number returns."""
    names: dict[str, Any] = {}
    exec(compile(SOURCE.format(lines=case.lines, use=case.use), "program", "exec"), names)
    found: int = names["forward"](torch.empty(batch, length, 2))
    return found


def forward(case: Case, path: Path) -> Any:
    path.write_text(SOURCE.format(lines=case.lines, use=case.use))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.forward


def check(case: Case, path: Path) -> None:
    torch.manual_seed(0)
    function = forward(case, path / "program.py")
    axes = {axis: name for axis, name in enumerate("bn") if name in case.axes}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = onnxport.export(
                function, torch.randn(*case.example, 2), input_names=["x"], dynamic_axes={"x": axes}
            )
    except onnxport.ExportError:
        return
    for sizes in sizes_of(case):
        x = torch.randn(*sizes, 2)
        expected = function(x)
        found = torch.as_tensor(exported(x))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), f"at {sizes}: {case}"
        scale = max(1.0, float(expected.abs().max())) if expected.numel() and math.isfinite(expected.sum()) else 1.0
        torch.testing.assert_close(
            found, expected, rtol=1e-4, atol=1e-5 * scale, equal_nan=True, msg=f"at {sizes}: {case}"
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_is_right_or_refused(tmp_path: Path, seed: int) -> None:
    check(program(seed), tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.lines)
def test_a_program_that_was_wrong_is_right_or_refused(tmp_path: Path, case: Case) -> None:
    check(case, tmp_path)
