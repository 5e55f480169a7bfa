"""Progress: what a function is told, and the bar on a terminal."""

from __future__ import annotations

import io
import pathlib
import sys
import time
from typing import Any

import pytest
import torch
from torch import nn

import onnxport

Step = tuple[str, int, "int | None"]


def steps(model: nn.Module, x: torch.Tensor, f: Any = None, **keywords: Any) -> tuple[list[Step], onnxport.Program]:
    seen: list[Step] = []
    program = onnxport.export(
        model, x, f, progress=lambda phase, done, total: seen.append((phase, done, total)), **keywords
    )
    return seen, program


def test_phases_come_in_order_and_end_at_their_total(tmp_path: pathlib.Path) -> None:
    seen, program = steps(
        nn.Linear(600, 900), torch.randn(2, 600), tmp_path / "m.onnx", dynamic_axes={"input": {0: "n"}}
    )
    phases = list(dict.fromkeys(phase for phase, _, _ in seen))
    assert phases == list(program.report.phases) == ["capture", "normalise", "lower", "optimise", "save", "verify"]
    for phase in phases:
        told = [(done, total) for name, done, total in seen if name == phase]
        assert [done for done, _ in told] == sorted(done for done, _ in told) and told[0][0] == 0
        assert told[-1][1] in (None, told[-1][0])
    saved = [done for phase, done, _ in seen if phase == "save"]
    assert len(saved) > 3 and saved[-1] == program.report.file_bytes
    assert max(done for phase, done, _ in seen if phase == "verify") >= len(program.verification.cases) > 1


@pytest.mark.parametrize("phase", ["capture", "lower", "save", "verify"])
@pytest.mark.parametrize("external", [None, True])
def test_what_the_function_raises_stops_the_export(phase: str, external: bool | None, tmp_path: pathlib.Path) -> None:
    def stop(name: str, done: int, total: int | None) -> None:
        if name == phase and (done or phase == "capture"):
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        onnxport.export(
            nn.Linear(600, 900), torch.randn(2, 600), tmp_path / "m.onnx", external_data=external, progress=stop
        )
    assert not list(tmp_path.iterdir())


class Slow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(1.5)
        return x + 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, model: nn.Module, stream: io.StringIO, **keywords: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    onnxport.export(model, torch.randn(3), verify=False, **keywords)
    return stream.getvalue()


def test_a_bar_comes_where_an_export_lasts_and_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Slow(), Terminal())
    assert "capture" in text and text.rstrip().endswith(("\x1b[2K", "\x1b[?25h\r\x1b[1A\x1b[2K"))


def test_no_bar_for_short_exports_in_pipes_or_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = nn.Linear(3, 3), Slow()
    assert shown(monkeypatch, quick, Terminal()) == ""
    assert shown(monkeypatch, slow, Terminal(), progress=False) == ""
    assert shown(monkeypatch, slow, io.StringIO()) == ""
    assert shown(monkeypatch, quick, io.StringIO(), progress=True) == ""


def test_a_bar_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Brief(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(0.3)
            return x + 1

    assert "capture" in shown(monkeypatch, Brief(), Terminal(), progress=True)


def test_something_else_is_told() -> None:
    with pytest.raises(TypeError, match="progress"):
        onnxport.export(nn.Linear(3, 3), torch.randn(3), progress="yes")  # type: ignore[arg-type]
