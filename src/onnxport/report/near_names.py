"""Names that resemble a misspelt one, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """A hint with similar names, if there are any."""
    found = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(found)}?" if found else ""
