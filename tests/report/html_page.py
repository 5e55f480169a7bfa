"""A page as a tree of elements, read by the standard library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"br", "hr", "input", "meta", "link", "img"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    parent: Element | None
    content: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        yield self
        for part in self.content:
            if isinstance(part, Element):
                yield from part.walk()

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    def above(self) -> Iterator[Element]:
        if self.parent is not None:
            yield self.parent
            yield from self.parent.above()


class HtmlPage(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self._at = Element("", {}, None)
        self.feed(text)
        self.close()
        assert self._at is self.root, f"<{self._at.tag}> is not closed"

    @staticmethod
    def read(path: Path) -> HtmlPage:
        return HtmlPage(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs), self._at)
        self._at.content.append(made)
        if tag not in VOID:
            self._at = made

    def handle_endtag(self, tag: str) -> None:
        assert self._at.tag == tag and self._at.parent is not None, f"</{tag}> in <{self._at.tag}>"
        self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.content.append(data)

    def all(self, name: str, value: str | None = None) -> list[Element]:
        """The elements with an attribute, of that value if one is given."""
        return [e for e in self.root.walk() if name in e.attributes and value in (None, e.attributes[name])]

    def one(self, name: str, value: str | None = None) -> Element:
        (found,) = self.all(name, value)
        return found

    @property
    def report(self) -> Any:
        return json.loads(self.one("id", "report").text)
