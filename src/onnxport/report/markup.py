"""HTML from parts; every text is escaped unless it is markup already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

VOID = frozenset({"br", "hr", "input", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *content: str | Iterable[str], **attributes: str | int | float | bool | None) -> Markup:
    """``<tag attribute="…">content</tag>``. In names of attributes ``_`` stands for ``-``, and one at the end goes.

    An attribute that is True has no value; one that is None or False is left out.
    """
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{joined(*content)}</{tag}>")


def joined(*content: str | Iterable[str]) -> Markup:
    """Concatenated parts; text among them is escaped."""
    parts: list[str] = []
    for part in content:
        if isinstance(part, Markup):
            parts.append(part)
        elif isinstance(part, str):
            parts.append(html.escape(part))
        else:
            parts.extend(joined(inner) for inner in part)
    return Markup("".join(parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Markup:
    """A table; the columns in ``numbers`` are right-aligned."""

    def row_of(tag: str, cells: Sequence[str], scope: str | None = None) -> Markup:
        kinds = ["number" if index in numbers else None for index in range(len(cells))]
        return element("tr", [element(tag, c, class_=kind, scope=scope) for c, kind in zip(cells, kinds, strict=True)])

    head = element("thead", row_of("th", heads, "col"))
    body = [row_of("td", row) for row in rows]
    return element("div", element("table", head, element("tbody", body)), class_="scroll")


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def byte_size(count: int | None) -> str:
    """A number of bytes as readable text."""
    if count is None:
        return "–"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
