"""Output: results on standard output, all else on standard error, colours only on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

MAX_LINES = 12
"""The most lines of a message; ``--traceback`` shows all."""

UNWRAPPED = 100_000
"""The width of lines that do not go to a terminal."""


def results() -> Console:
    """Standard output. Nothing is wrapped where it goes to a file or another program."""
    width = None if sys.stdout.isatty() else UNWRAPPED
    return Console(file=sys.stdout, highlight=False, markup=False, width=width)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in the style of all commands; columns in ``right`` are right-aligned."""
    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def paragraph(message: str, style: str = "") -> None:
    """A message on standard error, of a few lines at most."""
    lines = [line for line in message.splitlines() if line.strip()]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"… {len(lines) - MAX_LINES + 1} more lines: --traceback shows them"]
    console = Console(file=sys.stderr, highlight=False, markup=False)
    console.print("\n".join(lines), soft_wrap=True, style=style)


@contextlib.contextmanager
def only_results_on_stdout() -> Iterator[None]:
    """Redirect everything printed inside, also by C code, to standard error."""
    sys.stdout.flush()
    kept = _redirected()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _redirected() -> int | None:
    """Redirects descriptor 1 to 2; returns a copy of the old one, or None if there is none."""
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        return None
    return kept


@contextlib.contextmanager
def told_warnings(*, quiet: bool) -> Iterator[None]:
    """Show each warning in one line, or not at all."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        paragraph(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is ")  # torch on its own parts, which a source may use
        if quiet:
            warnings.simplefilter("ignore")
        yield


def shape(dims: list[Any]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
