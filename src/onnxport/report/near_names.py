"""Names that resemble a misspelt one, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """A hint with similar names, or with those that the name is a part of; empty if there are none."""
    names = list(known)
    found = difflib.get_close_matches(name, names, n=3) or [whole for whole in names if len(name) > 2 and name in whole]
    return f"; did you mean {' or '.join(found[:3])}?" if found else ""
