"""The Python code of README, docs/ and the notebooks: blocks of a page with the lines that they stand on."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

# A block is run unless this comment stands right above it, with the reason.
BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Code that is run at once. ``line`` is that of its first line on the page."""

    code: str
    line: int
    reason_not_to_run: str | None = None

    @property
    def warns(self) -> bool:
        """Whether the page says that one of its lines warns."""
        return "# warns" in self.code


def page_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["code"], text.count("\n", 0, found.start("code")) + 1, found["reason"])
        for found in BLOCK.finditer(text)
    ]


def notebook_cells(notebook: Path) -> list[dict[str, object]]:
    cells: list[dict[str, object]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return cells


def notebook_blocks(notebook: Path) -> list[Block]:
    """The code cells, on lines as if they stood one below the other."""
    blocks: list[Block] = []
    line = 1
    for cell in notebook_cells(notebook):
        if cell["cell_type"] == "code":
            code = "".join(cell["source"]) + "\n"  # type: ignore[arg-type]
            blocks.append(Block(code, line))
            line += code.count("\n")
    return blocks
