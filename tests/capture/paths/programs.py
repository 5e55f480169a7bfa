"""A generator of random programs that compute with sizes in Python, and what becomes of them as files.

python -m tests.capture.paths.programs 0 500

tries the seeds from 0 to 499 in one process, and tells how many are right, wrong and refused, by reason.
"""

from __future__ import annotations

import ast
import collections
import importlib.util
import math
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import onnxport

SOURCE = """
import math
import torch
from torch import Tensor
from torch.nn import functional as F
import bisect
import numpy as np
from functools import reduce

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

def graded(n, low, high):
    if n < low:
        return n + 1
    elif n < high and n % 2:
        return n // 2
    elif n == high or n % 5 == 3:
        return high
    return n % low

def halvings(n, low):
    count = 0
    while n > low and count < 9:
        n, count = n // 2, count + 1
    return count

def multiple(n, k):
    while n % k:
        n += 1
    return n

def digits(n):
    count = 1
    while n >= 10:
        n //= 10
        count += 1
    return count

def summed(n):
    total = 0
    for i in range(n % 6):
        total += i * n
    return total

def first(n, sizes):
    for size in sizes:
        if size >= n:
            return size
    return n

TABLE = (3, 1, 4, 1, 5, 9, 2, 6)
NAMED = {{2: 7, 3: 1, 8: 40, 17: 5, 100: 9}}

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
# Conditions in chains, loops, tables, texts, and what few models compute with.
FURTHER = [
    "graded({a}, {i}, {j})",
    "halvings({a}, {i})",
    "multiple({a}, {i})",
    "digits(abs({a}))",
    "summed({a})",
    "first({a}, (4, 16, 100, 402))",
    "first(abs({a}), sorted(({b}, {i}, {j})))",
    "TABLE[{a} % 8]",
    "TABLE[min(abs({a}), 7)]",
    "NAMED.get({a}, {i})",
    "int({a} in (2, 5, 17, 64, {j}))",
    "int({a} in NAMED)",
    "sorted(({a}, {b}, {i}))[1]",
    "[{a}, {b}, {i}].index(max({a}, {b}, {i}))",
    "len(range(0, abs({a}), {i}))",
    "sum(divmod({a}, {i}))",
    "divmod({a}, {leaf} + 1)[{bit}]",
    "round({a} / {i} * {f})",
    "int(round({a} / {i}, 1) * 10)",
    "round({a}, -1)",
    "({a} ^ {b}).bit_length()",
    "({a} | {i})",
    "({a} >> 3)",
    "~{a}",
    "pow({a} % 7, 2)",
    "pow(2, abs({a}) % 9)",
    "pow({a}, 2, {i})",
    "{a} ** 2 % {j}",
    "int(({a} % 9) ** 1.5)",
    "math.gcd({a}, {i})",
    "math.prod(({a} % 4, {b} % 3, {i}))",
    "int({a} > {i} or {b} {order} {j})",
    "({a} and {b})",
    "({a} or {b})",
    "int(not {a} {order} {j})",
    "int({i} < {a} <= {j})",
    "({a} if {i} <= {b} < {j} else {leaf} if {b} % 2 else {i})",
    "int(any(k {order} {a} for k in ({i}, {j})))",
    "int(all({a} % k for k in (2, 3, {i})))",
    "sum(1 for k in ({i}, {j}, {b}) if k {order} {a})",
    "max(({a}, {i}), key=lambda k: k % 10)",
    "min([{a}, {b}], default=0)",
    'len(f"{{{a}}}")',
    "len(str({a}))",
    'int(f"{{{a}}}"[-1])',
    'int("%d" % {a}) // {i}',
    'int(f"{{{a}:05d}}") + {i}',
    "int(float({a}) / {i})",
    "(lambda k: k * 2 + {i})({a})",
    'eval("int(k) // {i}", {{"k": {a}}})',
    "reduce(lambda left, right: left * 2 + right % 2, ({a}, {b}, {i}))",
    "int(np.ceil({a} / {i}))",
    "int(torch.tensor([{a}, {i}]).max())",
    "bisect.bisect((2, 8, 64, 300, 1000), {a})",
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
# What an export raises that is no error of ours: a bug.
CRASHES = (TypeError, ValueError, KeyError, IndexError, AttributeError, RuntimeError)
MOST = 6000  # the largest size of what is made


@dataclass(frozen=True)
class Case:
    """``lines`` compute numbers from the sizes of x, ``use`` computes with them; the sizes of ``axes`` vary."""

    lines: str
    use: str
    example: tuple[int, int]
    axes: str = "bn"


def number(rng: random.Random, names: Sequence[str], depth: int) -> str:
    """An expression of whole numbers that is defined whatever the names are."""
    leaf = rng.choice(names)
    if depth == 0:
        return leaf
    form = rng.choice(rng.choice((UNARY, BINARY, FURTHER)))
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
    try:
        largest = max(abs(value(case, *sizes)) for sizes in sizes_of(case))
    except ArithmeticError:  # it divides by 0 at some size
        return program(seed + 1_000_000)
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


def check(case: Case, path: Path) -> onnxport.ExportError | None:
    """Whether the file of a program is right at all sizes; the error, if there is none."""
    torch.manual_seed(0)
    function = forward(case, path / "program.py")
    axes = {axis: name for axis, name in enumerate("bn") if name in case.axes}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = onnxport.export(
                function, torch.randn(*case.example, 2), input_names=["x"], dynamic_axes={"x": axes}
            )
    except onnxport.InternalError:
        raise
    except onnxport.ExportError as error:
        return error
    for sizes in sizes_of(case):
        x = torch.randn(*sizes, 2)
        expected = function(x)
        found = torch.as_tensor(exported(x))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), f"at {sizes}: {case}"
        scale = max(1.0, float(expected.abs().max())) if expected.numel() and math.isfinite(expected.sum()) else 1.0
        torch.testing.assert_close(
            found, expected, rtol=1e-4, atol=1e-5 * scale, equal_nan=True, msg=f"at {sizes}: {case}"
        )
    return None


def main(first: int, last: int) -> None:
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(first, last):
        case = program(seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                error: Exception | None = check(case, Path(folder))
                kind = "right" if error is None else f"refused: {reason(error)}"
            except (AssertionError, *CRASHES) as wrong:
                error, kind = wrong, "wrong" if isinstance(wrong, AssertionError) else f"crash: {wrong!r}"
        counts[kind] += 1
        if error is not None:
            telling(f"{seed}: {kind.split(':')[0]}: {case}\n    {str(error)[:600]}")
    for kind, count in counts.most_common():
        telling(f"{count} {kind}")


def telling(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def reason(error: Exception) -> str:
    """A refusal without its place and numbers."""
    text = re.sub(r"^\S*program.py:\d+(, in \S+)?( \(.*?\))?: ", "", str(error).splitlines()[0])
    return re.sub(r"[bn]=\d+(, n=\d+)?", "...", text)[:90]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*map(int, sys.argv[1:3]))
