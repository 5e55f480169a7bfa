"""Hidden folders and files beside the target, where models are written before a rename puts them in place."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import shutil
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory


def staging_folder(parent: Path) -> TemporaryDirectory[str]:
    """A new folder in `parent`, on the same file system as the target so that a rename is atomic.

    It does not carry the target's name, which may be as long as the file system allows.
    """
    return TemporaryDirectory(prefix=f"{_prefix()}{os.getpid()}-", dir=parent, ignore_cleanup_errors=True)


def staging_file(parent: Path) -> Path:
    """The path of a new file in `parent`, by the same kind of name."""
    return parent / f"{_prefix()}{os.getpid()}-{secrets.token_hex(4)}"


def remove_stale(parent: Path) -> None:
    """Removes what killed processes of this machine left in `parent`."""
    pattern = re.compile(re.escape(_prefix()) + r"(\d{1,9})-\w+")
    for name in os.listdir(parent):
        match = pattern.fullmatch(name)
        if match and not _is_running(int(match[1])):
            _remove(parent / name)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _prefix() -> str:
    # The number of a process on another machine or in another container that shares the folder has no meaning here.
    machine = zlib.crc32(platform.node().encode())
    return f".onnxport-{machine:08x}-"


def _is_running(process: int) -> bool:
    if os.name == "nt":
        # On Windows os.kill ends the process, whatever the signal; stale folders stay.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # the process of another user
    return True
