"""The commands that README and docs show are commands that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from onnxport.cli.main import SUMMARIES, load_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = [
    (page.name, line)
    for page in PAGES
    for block in BLOCK.findall(page.read_text(encoding="utf-8"))
    for line in block.splitlines()
    if line.startswith("onnxport ") and "SOURCE" not in line
]


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_commands_in_the_docs_can_be_read(page: str, line: str) -> None:
    _, name, *words = shlex.split(line)
    load_command(name).make_context(name, words)


def test_every_command_is_shown_and_has_a_chapter() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    names = set(SUMMARIES)
    assert names <= {line.split()[1] for name, line in SHOWN if name == "command-line.md"}
    assert names <= set(re.findall(r"^## (\w+)$", page, re.MULTILINE))


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    assert str(load_command(name).help).splitlines()[0] == SUMMARIES[name]
