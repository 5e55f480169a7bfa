"""A picture of the nodes in the files of the exporters: `python -m benchmarks.latency.picture FILE PICTURE.svg`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.latency.measure import EXPORTERS, OURS
from benchmarks.latency.table import Row, nodes

COLOURS = dict(zip(EXPORTERS, ("#1f6feb", "#b9bec5", "#8b929b"), strict=True))
LEFT, BARS, BAR, GAP, TOP = 150, 480, 7, 10, 34


def bar(row: Row, exporter: str, y: int) -> str:
    """One bar, as long as the file has nodes by those of the largest of the three files, and the number behind it."""
    count = nodes(row, exporter, "operators")
    if count is None:
        return ""
    most = max(nodes(row, other, "operators") or 0 for other in EXPORTERS)
    length, weight = BARS * count / most, "bold" if exporter == OURS else "normal"
    return (
        f'<rect x="{LEFT}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{COLOURS[exporter]}"/>'
        f'<text x="{LEFT + length + 5:.0f}" y="{y + BAR}" font-size="9" font-weight="{weight}">{count}</text>'
    )


def legend() -> list[str]:
    parts = []
    for index, exporter in enumerate(EXPORTERS):
        x = LEFT + 150 * index
        parts.append(f'<rect x="{x}" y="12" width="10" height="10" fill="{COLOURS[exporter]}"/>')
        parts.append(f'<text x="{x + 15}" y="21">{escape(exporter)}</text>')
    return parts


def picture(rows: list[Row]) -> str:
    """Three bars for each model."""
    each = 3 * BAR + GAP
    parts = legend()
    for index, row in enumerate(rows):
        y = TOP + index * each
        parts.append(f'<text x="{LEFT - 8}" y="{y + 2 * BAR}" text-anchor="end">{escape(row["model"])}</text>')
        parts += [bar(row, exporter, y + BAR * place) for place, exporter in enumerate(EXPORTERS)]
    width, height = LEFT + BARS + 50, TOP + len(rows) * each
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
    return "\n".join(
        [f'{start} font-size="11">', '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"]
    )


if __name__ == "__main__":
    measured = [row for row in json.loads(Path(sys.argv[1]).read_text()) if "failed" not in row]
    Path(sys.argv[2]).write_text(picture(measured))
