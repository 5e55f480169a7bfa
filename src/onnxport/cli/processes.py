"""Runs a command in a separate process, with limits of time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

INTERVAL = 0.05
"""Seconds between two checks of a process."""

MIB = 2**20


@dataclass(frozen=True)
class Ended:
    """How a process ended: by itself with a code (negative for a signal), or stopped at a limit."""

    code: int | None
    stopped: Literal["timeout", "memory"] | None
    seconds: float
    stdout: str
    stderr: str


def run_limited(
    words: Sequence[str], folder: Path, timeout: float | None, memory: float | None, interrupted: threading.Event
) -> Ended:
    """Run `onnxport` with these arguments; at a limit, or on interrupt, the process and its children are killed."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "onnxport", *words],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        try:
            stopped = _watch(process, start, timeout, memory, interrupted)
        finally:
            _kill(process)
        code = process.wait()
        texts = [_text(file) for file in (out, err)]
    return Ended(None if stopped else code, stopped, time.monotonic() - start, *texts)


def _watch(
    process: subprocess.Popen[bytes],
    start: float,
    timeout: float | None,
    memory: float | None,
    interrupted: threading.Event,
) -> Literal["timeout", "memory"] | None:
    while process.poll() is None and not interrupted.is_set():
        if timeout is not None and time.monotonic() - start > timeout:
            return "timeout"
        if memory is not None and _resident(process.pid) > memory * MIB:
            return "memory"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INTERVAL)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _resident(pid: int) -> int:
    """The memory of a process in bytes; 0 if it has ended."""
    status = Path(f"/proc/{pid}/statm")
    try:
        if status.exists():
            return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return int(shown.stdout or 0) * 1024
    except (OSError, ValueError, IndexError):
        return 0


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")
