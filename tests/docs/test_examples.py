"""The Python examples of README, docs/ and the notebooks run, and warn where they say so."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

from tests.docs.pages import NOTEBOOKS, PAGES, Block, notebook_blocks, notebook_cells, page_blocks

EXAMPLES = {page.name: page_blocks(page) for page in PAGES} | {book.name: notebook_blocks(book) for book in NOTEBOOKS}
RUN = {name: blocks for name, blocks in EXAMPLES.items() if any(not block.reason_not_to_run for block in blocks)}


def run(blocks: list[Block], file: Path) -> None:
    """One block after the other, in one namespace, from a file: TorchScript and error messages read its lines."""
    lines: list[str] = []
    for block in blocks:
        lines += ["\n"] * (block.line - 1 - len(lines)) + block.code.splitlines(keepends=True)
    file.write_text("".join(lines), encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        code = compile("\n" * (block.line - 1) + block.code, str(file), "exec")
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            exec(code, namespace)
        own = [str(warning.message) for warning in raised if warning.category.__module__.startswith("onnxport")]
        assert bool(own) == block.warns, f"{file.stem}, line {block.line}: {own or 'no warning'}"


@pytest.mark.parametrize("name", RUN)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(
        [block for block in RUN[name] if not block.reason_not_to_run], tmp_path / f"{name.partition('.')[0]}_example.py"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_not_run_is_python(name: str) -> None:
    for block in EXAMPLES[name]:
        ast.parse(block.code)


def test_there_are_examples_and_notebooks() -> None:
    assert len(RUN) >= 12 and len(NOTEBOOKS) == 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_store_no_outputs(notebook: Path) -> None:
    code = [cell for cell in notebook_cells(notebook) if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
