"""Programs that compute with sizes in Python: a file is right at every size, or the user is told, or it is refused."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import onnxport

SOURCE = """
import math
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def forward(self, x):
        {sizes}
        k = {number}
        return {use}
"""
CUT, REPEATED, COUNTED, PADDED = (
    "x[:, :k]",
    "x.repeat(1, 1, min(k, 5))",
    "torch.arange(k)[None].float() + x[:, :1, 0]",
    "F.pad(x, (0, 0, 0, k))",
)
SHAPE, NUMBERS, LENGTHS = "b, n, c = x.shape", "n = int(x.shape[1]); b = x.size(0)", "n = len(x[0]); b = len(x)"
PROGRAMS = [
    (LENGTHS, "int(math.sqrt(n))", CUT, 33),
    (LENGTHS, "n", REPEATED, 33),
    (LENGTHS, "round((n // 2) / 4)", PADDED, 20),
    (LENGTHS, "(min((n // 7), 28) // 7)", COUNTED, 16),
    (LENGTHS, "max(min(min(n, 20), 20), 4)", REPEATED, 12),
    (LENGTHS, "(1 << (int(math.sqrt(math.isqrt(n))) - 1).bit_length())", PADDED, 20),
    (NUMBERS, "abs(round(n / 5) - 2) // 8", REPEATED, 9),
    (NUMBERS, "b * max(n // 5, 4)", COUNTED, 20),
    (NUMBERS, "int(int(math.ceil(n / 8)) ** 0.5)", PADDED, 16),
    (NUMBERS, "abs(n - 7) + b", "x * k", 33),
    (NUMBERS, "math.isqrt(int(int(n ** 0.5) ** 0.5))", "x.mean(1) / (k + 1)", 6),
    (SHAPE, "int(((n + b) * 5) / 16 + 0.5)", REPEATED, 12),
    (SHAPE, "max(int((n // 8) / 8 + 0.5), 2)", COUNTED, 12),
    (SHAPE, "round(int(((n + 4) // 5) / 2 + 0.5) / 8)", "x * k", 20),
    (SHAPE, "int(math.log2(math.isqrt((n + 4) // 5) + 1))", COUNTED, 20),
    (SHAPE, "len(range(0, len(range(0, n, 8)), 8))", COUNTED, 33),
]
SIZES = [(1, 7), (4, 2), (2, 3), (2, 5), (3, 8), (2, 17), (2, 32), (1, 64), (5, 100), (2, 129), (1, 255), (1, 300)]


def made(path: Path, sizes: str, number: str, use: str) -> nn.Module:
    path.write_text(SOURCE.format(sizes=sizes, number=number, use=use))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model: nn.Module = module.Model()
    return model


@pytest.mark.parametrize(("sizes", "number", "use", "example"), PROGRAMS)
def test_nothing_is_silently_wrong(tmp_path: Path, sizes: str, number: str, use: str, example: int) -> None:
    torch.manual_seed(0)
    model = made(tmp_path / "program.py", sizes, number, use)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = onnxport.export(
                model, torch.randn(2, example, 3), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "n"}}
            )
    except onnxport.ExportError:
        return
    if program.report.warnings:
        return
    for batch, length in SIZES:
        x = torch.randn(batch, length, 3)
        expected = model(x)
        found = torch.as_tensor(program(x))
        assert found.shape == expected.shape, (batch, length)
        torch.testing.assert_close(found.float(), expected.float(), rtol=1e-3, atol=1e-4)
