"""Short paths of the user's files for messages."""

from __future__ import annotations

import functools
import os
import sys

INSTALLED = ("site-packages", "dist-packages")


def shown_path(file: str) -> str:
    """``model.py`` for a file below the working folder, ``package/file.py`` for one that is imported from elsewhere."""
    return _shown_path(file, os.getcwd(), tuple(sys.path))


@functools.lru_cache(maxsize=1000)
def _shown_path(file: str, working: str, importable: tuple[str, ...]) -> str:
    inside = _below(file, working)
    if inside is not None and not any(name in inside.split(os.sep) for name in INSTALLED):
        return inside
    known = [path for folder in importable if folder and (path := _below(file, folder)) is not None]
    return min(known, key=len, default=file)


def _below(file: str, folder: str) -> str | None:
    """The path from a folder to a file in it."""
    start = folder.rstrip(os.sep) + os.sep
    return file.removeprefix(start) if file.startswith(start) else None
