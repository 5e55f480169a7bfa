"""`onnxport batch`: recipes, and processes that hang, crash or take too much memory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from tests.cli.conftest import Command

CRASHES = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
GROWS = "import numpy as np, time\nkept = np.ones(300 * 2**17)\ntime.sleep(60)\n"
# A shell lets what it starts in the background ignore interruptions, and that is inherited.
HEARS_INTERRUPTIONS = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from onnxport.cli.main import run; run()"
)
CHILDREN = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "open('child', 'w').write(str(child.pid))\ntime.sleep(60)\n"
)


def recipe(folder: Path, *models: str, defaults: str = "") -> None:
    tables = [f"[[model]]\n{model}" for model in models]
    (folder / "recipes.toml").write_text("\n".join([f"[defaults]\n{defaults}", *tables]))


def model(name: str, source: str, *lines: str) -> str:
    return "\n".join([f'name = "{name}"', f'source = "{source}"', f'output = "{name}.onnx"', *lines])


def test_one_that_crashes_or_grows_ends_alone(folder: Path, command: Command) -> None:
    for name, text in {"crashes": CRASHES, "grows": GROWS, "hangs": CHILDREN}.items():
        (folder / f"{name}.py").write_text(text)
    recipe(
        folder,
        model("crashes", "crashes.py:build"),
        model("grows", "grows.py:build", "memory = 200", "timeout = 30"),
        model("hangs", "hangs.py:build", "timeout = 10"),
        model("invalid", "models.py:nothing", 'input = ["image=2x3x8x8"]'),
        model("right", "models.py:build", 'input = ["image=2x3x8x8"]', "verify = false", 'arg = []'),
        defaults="opset = 16",
    )  # fmt: skip
    done = command("batch", "recipes.toml", "-j", 2, "--json")
    rows = {row["name"]: row for row in done.said}
    assert done.code == 1 and {name: row["status"] for name, row in rows.items()} == {
        "crashes": "crashed", "grows": "memory", "hangs": "timeout", "invalid": "invalid", "right": "unchecked",
    }  # fmt: skip
    assert "nothing" in rows["invalid"]["error"]["message"] and rows["right"]["error"] is None
    assert "200 MiB" in rows["grows"]["error"]["message"] and rows["hangs"]["seconds"] < 60
    assert onnx.load("right.onnx").opset_import[0].version == 16
    assert _is_gone(int((folder / "child").read_text())), "what it started ends with it"


def test_an_interruption_ends_all(folder: Path) -> None:
    (folder / "hangs.py").write_text(CHILDREN)
    recipe(folder, *(model(name, "hangs.py:build") for name in ("a", "b", "c")))
    call = [sys.executable, "-c", HEARS_INTERRUPTIONS, "batch", "recipes.toml", "--json"]
    with subprocess.Popen(call, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as batch:
        while not (folder / "child").exists() or not (folder / "child").read_text():
            time.sleep(0.1)
        batch.send_signal(signal.SIGINT)
        out, _ = batch.communicate(timeout=20)
    assert batch.returncode == 130 and not out
    assert _is_gone(int((folder / "child").read_text()))


def _is_gone(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().split()[2] == "Z"


WRONG = {
    "no toml": ("= nothing", "TOML"),
    "no models": ("[defaults]\nopset = 17", "[[model]]"),
    "another table": ("[models]\nname = 'x'", "models"),
    "no output": ("[[model]]\nname = 'x'\nsource = 'm.py:f'", "output"),
    "an unknown option": (f"[[model]]\n{model('x', 'm.py:f', 'opsett = 3')}", "opsett"),
    "a list for one value": (f"[[model]]\n{model('x', 'm.py:f', 'opset = [3]')}", "opset"),
    "no switch": (f"[[model]]\n{model('x', 'm.py:f', 'optimize = 3')}", "optimize"),
    "a limit that is none": (f"[[model]]\n{model('x', 'm.py:f', 'timeout = -1')}", "timeout"),
    "a name twice": (f"[[model]]\n{model('x', 'm.py:f')}\n[[model]]\n{model('x', 'm.py:g')}", "'x'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_recipe_is_told_before_anything_runs(folder: Path, command: Command, case: str) -> None:
    text, named = WRONG[case]
    (folder / "recipes.toml").write_text(text)
    done = command("batch", "recipes.toml")
    assert done.code == 2 and not done.out and done.is_one_paragraph and named in done.err, done.err
