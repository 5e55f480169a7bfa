"""What the commands have in common, and those about the installation."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxport
from tests.cli.conftest import Command


def test_operators_by_part_of_a_name_pattern_and_opset(command: Command) -> None:
    rows = {row["name"]: row["since"] for row in command("ops", "layer_norm", "--json").said}
    assert "aten::layer_norm" in rows and all("layer_norm" in name for name in rows)
    names = [row["name"] for row in command("ops", "ge*u", "--json").said]
    assert "aten::gelu" in names and "aten::gelu_" not in names
    assert command("ops", "gelu", "--opset", rows["aten::layer_norm"] - 10).code == 1
    done = command("ops", "nosuchoperator")
    assert done.code == 1 and not done.out and "nosuchoperator" in done.err
    assert len(command("ops", "--json").said) > 500


def test_the_doctor_names_what_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command("doctor", "--json")
    assert done.code == 0 and done.said["packages"]["torch"] == torch.__version__
    found = importlib.util.find_spec

    def without(*names: str) -> Any:
        return lambda name, package=None: None if name in names else found(name, package)

    monkeypatch.setattr("importlib.util.find_spec", without("timm"))
    done = command("doctor", "--json")
    assert done.code == 0 and done.said["ok"] is True and done.said["missing"] == {"timm": "pip install 'timm'"}
    monkeypatch.setattr("importlib.util.find_spec", without("onnxruntime"))
    done = command("doctor", "--json")
    assert done.code == 1 and done.said["ok"] is False and "onnxruntime" in done.err
    assert "pip install" in command("doctor").out


@pytest.mark.parametrize(
    "words", [["--nothing"], ["nothing"], ["inspect"], ["inspect", "a", "b"], ["ops", "--opset", "x"]]
)
def test_wrong_words_are_told_in_one_paragraph(command: Command, words: list[str]) -> None:
    done = command(*words)
    assert done.code == 2 and not done.out and done.is_one_paragraph


def test_a_word_that_is_nearly_a_command_is_told(command: Command) -> None:
    assert "did you mean export?" in command("exprot").err
    done = command()
    assert done.code == 2 and not done.out and "export, verify, inspect" in done.err
    assert "did you mean gelu" in command("ops", "gelluu").err


@pytest.mark.parametrize("name", ["export", "verify", "inspect", "diff", "run", "ops", "doctor", "batch"])
def test_every_command_has_help_and_the_common_options(command: Command, name: str) -> None:
    done = command(name, "--help")
    assert done.code == 0 and {"--json", "--quiet", "--traceback"} <= set(re.findall(r"--[a-z]+", done.out))


def run(*words: str, cwd: Path, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, *flags, "-m", "onnxport", *words]
    return subprocess.run(call, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "words", [["doctor"], ["diff", "tiny.onnx", "tiny.onnx"], ["ops", "gelu"], ["export", "models.py:"]]
)
def test_commands_without_torch(tiny: Path, words: list[str]) -> None:
    done = run(*words, "--json", cwd=tiny.parent, flags=("-X", "importtime"))
    assert done.returncode == (2 if words[0] == "export" else 0), done.stderr
    assert re.search(r"\|\s+(onnx|rich)\S*\s*$", done.stderr, re.MULTILINE)
    assert not re.search(r"\|\s+torch\s*$", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["export", "models.py:build", "-o", "m.onnx", "--input", "image=2x3xeight"], "eight"),
        (["export", "models.py:build", "-o", "no/m.onnx", "--input", "image=2x3"], "no"),
        (["export", "models.py:build", "-o", "m.onnx", "--input", "image=2x3", "--weights", "w.pt"], "w.pt"),
        (["export", "models.py:build", "-o", "m.onnx", "--input", "image=2x3:int46"], "did you mean int64"),
        (["export", "models.py:build", "-o", "m.onnx", "--input", "image=2x3", "--opset", "99"], "opset_version=99"),
        (["export", "models.py:build", "-o", "m.onnx", "--input", "image=2x3", "--dynamic", "image=7:n"], "has 2 axes"),
        (
            ["export", "models.py:build", "-o", "m.onnx", "--dynamic", "x=0:n", "--check-sizes", "nn=7"],
            "did you mean n?",
        ),
        (["export", "models.py:build", "-o", "m.onnx", "--skip-passes", "AddBias"], "AddBiasLast"),
        (["export", "models.py:build", "-o", "m.onnx", "--output-names", "a,a"], "the same name twice"),
        (["batch", "nowhere.toml"], "nowhere.toml"),
        (["export", "nowhere:build", "-o", "m.onnx"], "No module named 'nowhere'"),
    ],
)
def test_what_is_plainly_wrong_is_found_before_torch_is_imported(folder: Path, words: list[str], named: str) -> None:
    done = run(*words, cwd=folder, flags=("-X", "importtime"))
    assert done.returncode == 2 and not done.stdout and named in done.stderr and not Path(folder, "m.onnx").exists()
    assert not re.search(r"\|\s+torch\s*$", done.stderr, re.MULTILINE)


def test_colours_on_a_terminal_only(tiny: Path) -> None:
    assert "\x1b" not in run("inspect", "tiny.onnx", cwd=tiny.parent).stdout
    main, other = pty.openpty()
    call = [sys.executable, "-m", "onnxport", "inspect", "tiny.onnx"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    subprocess.run(call, cwd=tiny.parent, env=environment, stdout=other, stderr=other, timeout=60, check=True)
    os.close(other)
    text = b""
    while chunk := _read(main):
        text += chunk
    assert b"\x1b[1m" in text and b"Conv" in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def test_a_reader_that_leaves_is_no_defect(tmp_path: Path) -> None:
    call = f"{sys.executable} -m onnxport ops --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", call], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[\n" and done.returncode == 0 and not done.stderr


def test_the_version(command: Command) -> None:
    assert command("--version").out == f"onnxport {onnxport.__version__}\n"
