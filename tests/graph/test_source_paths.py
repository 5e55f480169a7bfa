"""Paths in messages: short, and still found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

import onnxport
from onnxport.graph.source_paths import shown_path


def test_a_file_below_the_working_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "nets" / "model.py")) == os.path.join("nets", "model.py")


def test_an_installed_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / ".venv" / "lib" / "site-packages"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(installed)])
    assert shown_path(str(installed / "package" / "file.py")) == os.path.join("package", "file.py")


def test_a_file_from_elsewhere_keeps_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])
    assert shown_path("/far/away/model.py") == "/far/away/model.py"


def test_a_message_names_the_file_from_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    monkeypatch.chdir(Path(__file__).parent)
    with pytest.warns(onnxport.TraceWarning, match=r"^test_source_paths\.py:\d+"):
        onnxport.export(model, torch.ones(3), control_flow="trace")
