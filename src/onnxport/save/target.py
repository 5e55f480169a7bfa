"""The target of a model: a path, a binary stream, a file descriptor, or None."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from onnxport.errors import OptionTypeError, SaveError
from onnxport.save.layout import Writable

Target: TypeAlias = "str | bytes | os.PathLike[str] | Writable | None"


def check_target(target: Target) -> None:
    """Raises SaveError if `target` cannot be written, OptionTypeError if it is not a target."""
    resolve(target)


def is_path(target: Target) -> bool:
    """Whether the target is a file that is replaced, and no stream."""
    return isinstance(resolve(target), Path)


def resolve(target: Target) -> Path | Writable | None:
    """The regular file to replace (what a symbolic link points to), or the stream to write to."""
    if target is None:
        return None
    if isinstance(target, str | bytes | os.PathLike):
        return _resolve_path(os.fsdecode(target))
    if not callable(getattr(target, "write", None)) and callable(getattr(target, "fileno", None)):
        return _Descriptor(target)
    _check_stream(target)
    return target


@contextmanager
def save_errors(name: object) -> Iterator[None]:
    """Converts OSErrors into SaveErrors that name the target, not a temporary file beside it."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise _refusal(name, error.strerror or str(error)) from error


def write_all(stream: Writable, data: bytes) -> None:
    """Writes all of `data`, also to an unbuffered stream, which may write less per call."""
    if not isinstance(stream, io.RawIOBase):
        stream.write(data)
        return
    remaining = memoryview(data)
    while remaining:
        written = stream.write(remaining)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, "the stream does not block and takes no more")
        remaining = remaining[written:]


@dataclass(frozen=True)
class _Device:
    """A path that must be written to rather than replaced: /dev/null, a named pipe."""

    path: str

    def __str__(self) -> str:
        return self.path

    def write(self, data: bytes | memoryview, /) -> None:
        with open(self.path, "wb") as file:
            file.write(data)


@dataclass(frozen=True)
class _Descriptor:
    """An object that has only a file descriptor."""

    owner: Any

    def __str__(self) -> str:
        return f"a {type(self.owner).__name__}"

    def write(self, data: bytes | memoryview, /) -> None:
        with open(self.owner.fileno(), "wb", closefd=False) as file:
            file.write(data)


def _resolve_path(name: str) -> Path | Writable:
    if "\0" in name:
        raise _refusal(repr(name), "a path cannot hold a NUL character")
    if not os.path.basename(name):
        raise _refusal(name, "it names a folder, not a file")
    path = Path(os.path.realpath(name))
    with save_errors(name):
        mode = _mode(name)
    if mode is not None and stat.S_ISDIR(mode):
        raise _refusal(name, "it is a folder")
    if mode is not None and not stat.S_ISREG(mode):
        return _Device(name)
    _check_folder(name, path.parent)
    if mode is not None and not os.access(path, os.W_OK):
        raise _refusal(name, "the file that is there is read-only")
    return path


def _mode(name: str) -> int | None:
    try:
        return os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_folder(name: str, folder: Path) -> None:
    if not folder.exists():
        raise _refusal(name, f"the folder {folder} does not exist; create it first")
    if not folder.is_dir():
        raise _refusal(name, f"{folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refusal(name, f"the folder {folder} is not writable")


def _check_stream(stream: object) -> None:
    if isinstance(stream, io.TextIOBase):
        raise OptionTypeError("the target is a file in text mode: open it with mode 'wb'")
    if not callable(getattr(stream, "write", None)):
        raise OptionTypeError(f"the target must be a path or a binary file object, not {type(stream).__name__}")
    if isinstance(stream, io.IOBase) and (stream.closed or not stream.writable()):
        raise _refusal(stream, "it is closed" if stream.closed else "it is not open for writing")


def _refusal(name: object, reason: str) -> SaveError:
    return SaveError(f"could not write {name}: {reason}")
