"""A folder with models and a file made of one, and commands run in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onnxport.cli.main import main

MODELS = """
import torch
from torch import nn


class Tiny(nn.Module):
    def __init__(self, width=8, act="relu"):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.head = nn.Linear(width, 5)
        self.act = getattr(torch, act)

    def forward(self, image):
        return self.head(self.act(self.conv(image)).mean((2, 3)))


def build():
    print("building")
    torch.manual_seed(0)
    return Tiny()


def other():
    torch.manual_seed(1)
    return Tiny()


def fails():
    raise OSError("the disk is gone")


def leaves():
    raise SystemExit(0)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 4)

    def forward(self, tokens, scale=2.0):
        return self.table(tokens) * scale


class Broken(nn.Module):
    def forward(self, image):
        return image.view(7, -1)


class Leaves(nn.Module):
    def forward(self, image):
        raise SystemExit(0)


class Picky(nn.Module):
    def forward(self, image):
        if image.shape[0] > 4:
            return (image * 2).long()
        return image + 1


made = build()
number = 3
"""


@dataclass(frozen=True)
class Done:
    """A command that was carried out: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> Any:
        return json.loads(self.out)

    @property
    def is_one_paragraph(self) -> bool:
        lines = [line for line in self.err.splitlines() if line.strip()]
        return 1 <= len(lines) <= 15 and "Traceback" not in self.err


Command = Callable[..., Done]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> Done:
        capfd.readouterr()
        code = main([str(word) for word in words])
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with models.py."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("models", "models_source"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def tiny(folder: Path, command: Command) -> Path:
    """tiny.onnx in the working folder."""
    done = command(
        "export", "models.py:build", "-o", "tiny.onnx", "--input", "image=2x3x8x8", "--dynamic", "image=0:batch"
    )
    assert done.code == 0, done.err
    return folder / "tiny.onnx"
