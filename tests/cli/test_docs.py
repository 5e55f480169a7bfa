"""The commands that README and docs show are commands that there are."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from onnxport.cli.main import SUMMARIES, load_command
from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = [
    (page.name, line)
    for page in PAGES
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8"))
    for line in block.splitlines()
    if not language and line.startswith("onnxport ") and "SOURCE" not in line
]


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_commands_in_the_docs_can_be_read(page: str, line: str) -> None:
    _, name, *words = shlex.split(line)
    load_command(name).make_context(name, words)


def test_the_commands_of_the_page_do_what_it_says(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order, with the models and the recipe that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "models", raising=False)
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    blocks = dict(BLOCK.findall(page))
    Path("models.py").write_text(blocks["python"], encoding="utf-8")
    Path("recipes.toml").write_text(blocks["toml"], encoding="utf-8")
    np.savez("in.npz", image=np.zeros((3, 3, 224, 224), np.float32))
    other = "onnxport export models.py:Classifier -o other.onnx --input image=2x3x224x224"
    for line in (other, *(line for name, line in SHOWN if name == "command-line.md")):
        _, *words = shlex.split(line)
        done = command(*words)
        assert done.code == (1 if words[0] == "diff" else 0), f"{line}\n{done.err}"
    with np.load("out.npz") as out:
        assert out["conv/Conv"].shape == (3, 8, 222, 222)


def test_every_command_is_shown_and_has_a_chapter() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    names = set(SUMMARIES)
    assert names <= {line.split()[1] for name, line in SHOWN if name == "command-line.md"}
    assert names <= set(re.findall(r"^## (\w+)$", page, re.MULTILINE))


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    assert str(load_command(name).help).splitlines()[0] == SUMMARIES[name]
