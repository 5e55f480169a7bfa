"""A random program: the source of a model, and what it is run on."""

from __future__ import annotations

import importlib.util
import textwrap
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# The sizes of the example, those that a line of a program is tried at, and those that the file is run at besides.
EXAMPLE = {"b": 3, "n": 6, "m": 5}
TRIED = (EXAMPLE, {"b": 2, "n": 9, "m": 7}, {"b": 5, "n": 4, "m": 8})
OTHERS = (
    {"b": 2, "n": 9, "m": 7},
    {"b": 5, "n": 4, "m": 8},
    {"b": 1, "n": 1, "m": 1},
    {"b": 4, "n": 2, "m": 3},
    {"b": 2, "n": 17, "m": 16},
    {"b": 7, "n": 33, "m": 12},
)
NAN = float("nan")

HEADER = """
import bisect
import collections
import dataclasses
import functools
import itertools
import math
from typing import List
import numpy as np
import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn import functional as F
"""
MODULE = """
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}

    def forward(self, {names}):
        {lines}
        return {result}
"""
SCRIPT = """
@torch.jit.script
def model({names}):
    {lines}
    return {result}
"""


@dataclass(frozen=True)
class Input:
    """A tensor by its name. A letter in its shape is a dynamic size; ``kind`` is one of `DRAWN`."""

    name: str
    shape: tuple[int | str, ...]
    kind: str = "float"

    def drawn(self, sizes: Mapping[str, int], seed: int) -> torch.Tensor:
        shape = [sizes[size] if isinstance(size, str) else size for size in self.shape]
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.name}{seed}".encode()))
        return DRAWN[self.kind](shape, generator)


def _integers(low: int, high: int, dtype: torch.dtype) -> Any:
    return lambda shape, generator: torch.randint(low, high, shape, generator=generator).to(dtype)


def _one_of(numbers: list[Any], dtype: torch.dtype) -> Any:
    def draw(shape: list[int], generator: torch.Generator) -> torch.Tensor:
        places = torch.randint(len(numbers), shape, generator=generator)
        return torch.tensor(numbers, dtype=dtype)[places]

    return draw


DRAWN: dict[str, Any] = {
    "float": lambda shape, generator: torch.randn(shape, generator=generator),
    "double": lambda shape, generator: torch.randn(shape, generator=generator, dtype=torch.float64),
    "half": lambda shape, generator: torch.randn(shape, generator=generator).half(),
    "bool": lambda shape, generator: torch.rand(shape, generator=generator) > 0.5,
    "index": _integers(0, 4, torch.int64),
    "long": _integers(-20, 20, torch.int64),
    "int": _integers(-20, 20, torch.int32),
    "byte": _integers(0, 256, torch.uint8),
    "small": _integers(-20, 20, torch.int8),
    "short": _integers(-300, 300, torch.int16),
    "long limits": _one_of([-(2**63), -(2**63) + 1, -(2**33), -(2**31) - 1, -1, 0, 1, 7, 2**31 + 1, 2**33, 2**63 - 1],
                           torch.int64),
    "int limits": _one_of([-(2**31), -(2**31) + 1, -7, -1, 0, 1, 3, 2**31 - 1], torch.int32),
    "special": _one_of([NAN, 0.0, -0.0, 1.5, -2.0, 3.0, 1e30, 1e-40], torch.float32),
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """``lines`` are those of the model's forward, which returns ``result``; ``layers`` those of its constructor.

    ``helpers`` are functions that its lines call, with what they import.
    """

    family: str
    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    result: tuple[str, ...]
    layers: tuple[str, ...] = ()
    script: bool = False
    helpers: str = ""

    def source(self) -> str:
        names = ", ".join(f"{given.name}: Tensor" if self.script else given.name for given in self.inputs)
        form, indent = (SCRIPT, 4) if self.script else (MODULE, 8)
        return (self.helpers or HEADER) + form.format(
            names=names,
            layers=_indented(self.layers or ("pass",), 8),
            lines=_indented(self.lines, indent),
            result=self.result[0] if len(self.result) == 1 else f"({', '.join(self.result)})",
        )

    def tensors(self, sizes: Mapping[str, int], seed: int) -> tuple[torch.Tensor, ...]:
        return tuple(given.drawn(sizes, seed) for given in self.inputs)

    def axes(self) -> dict[str, dict[int, str]]:
        found = {i.name: {dim: size for dim, size in enumerate(i.shape) if isinstance(size, str)} for i in self.inputs}
        return {name: axes for name, axes in found.items() if axes}

    def load(self, folder: Path) -> Any:
        """A function that makes the model, from a source file, which is what errors and warnings point to."""
        path = folder / "program.py"
        path.write_text(self.source(), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("program", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return (lambda: module.model) if self.script else _seeded(module.Model)


def _seeded(kind: Any) -> Any:
    def make() -> Any:
        torch.manual_seed(0)
        return kind().eval()

    return make


def _indented(lines: tuple[str, ...], by: int) -> str:
    return textwrap.indent("\n".join(lines), " " * by).lstrip()
