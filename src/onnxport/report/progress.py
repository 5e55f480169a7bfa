"""The progress of an export: passed to a user's function, or shown as a bar on a terminal."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeAlias

Listener: TypeAlias = Callable[[str, int, "int | None"], object]
"""``function(phase, done, total)``; total is None if it is not known."""

Progress: TypeAlias = "bool | Listener | None"

DELAY = 1.0
"""Seconds after which the bar is shown."""


@contextlib.contextmanager
def watched(progress: Progress) -> Iterator[Listener]:
    """The function to call with the progress of an export, within the with statement."""
    if callable(progress):
        yield progress
    elif progress is False or not _somebody_looks():
        yield lambda phase, done, total: None
    else:
        with Bar(0.0 if progress else DELAY) as bar:
            yield bar.notify


def _somebody_looks() -> bool:
    """Whether standard error is a terminal, or a notebook that can show a bar."""
    if "ipykernel" in sys.modules:
        return importlib.util.find_spec("ipywidgets") is not None
    return sys.stderr is not None and sys.stderr.isatty()


class Bar:
    """A bar on standard error, shown some seconds after the start and removed at the end."""

    def __init__(self, delay: float) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        self._shown = Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task: Any = self._shown.add_task("", total=None)
        self._lock = threading.Lock()
        self._ended = False
        self._timer = threading.Timer(delay, self._start)
        self._timer.daemon = True

    def __enter__(self) -> Bar:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            self._shown.stop()

    def notify(self, phase: str, done: int, total: int | None) -> None:
        self._shown.update(self._task, description=phase, completed=done, total=total)

    def _start(self) -> None:
        with self._lock:
            if not self._ended:
                self._shown.start()
