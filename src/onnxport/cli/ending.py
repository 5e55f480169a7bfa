"""The end of a command: exit codes and error messages."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, TracebackType

import typer

from onnxport.cli.screen import paragraph
from onnxport.errors import ExportError

YES = 0
NO = 1
WRONG_COMMAND = 2
DEFECT = 3
INTERRUPTED = 130

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class CommandError(Exception):
    """The command line is wrong; the message names the wrong argument."""


@dataclass
class Ending:
    """The outermost context of a command: it turns every end into an exit code.

    ``details`` adds tracebacks to error messages.
    """

    details: bool
    code: int = YES

    def __enter__(self) -> Ending:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool:
        if error is None:
            return True
        if isinstance(error, typer.Exit):
            self.code = error.exit_code
        elif isinstance(error, (KeyboardInterrupt, typer.Abort)):
            self.code = INTERRUPTED
            paragraph("interrupted")
        elif isinstance(error, (CommandError, typer.TyperException)):
            self.code = WRONG_COMMAND
            self._tell(error)
        elif isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of the results has closed the pipe
        elif isinstance(error, Exception):
            self.code = DEFECT
            sys.stderr.write("".join(traceback.format_exception(error)))
            paragraph("this is a bug in onnxport: please report it, with the lines above and `onnxport doctor`")
        return isinstance(error, Exception | KeyboardInterrupt)

    def _tell(self, error: Exception) -> None:
        if self.details:
            sys.stderr.write("".join(traceback.format_exception(error)))
        else:
            paragraph(f"error: {_usage(error) if isinstance(error, typer.TyperException) else error}")


def _usage(error: typer.TyperException) -> str:
    """What is wrong with a command line, and where to find help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onnxport"
    return f"{error.format_message()} (see {command} --help)"


class ModelRun:
    """Runs a model: keeps an error of the model, and passes our own errors on."""

    def __init__(self, model: object) -> None:
        from torch.nn.modules import module  # noqa: PLC0415

        code = getattr(model, "__code__", None)
        self._files = {module.__file__, code and code.co_filename}
        self.error: Exception | SystemExit | None = None

    def __enter__(self) -> ModelRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception | SystemExit) or isinstance(error, ExportError):
            return False
        if not any(code.co_filename in self._files for code in _codes(frames)):
            return False
        self.error = error
        return True


@dataclass
class SourceRun:
    """Runs the user's code before an export: its exceptions become command errors."""

    what: str

    def __enter__(self) -> SourceRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if isinstance(error, CommandError) or not isinstance(error, Exception | SystemExit):
            return
        raise CommandError(f"{self.what}: {described(error)}") from error


def described(error: BaseException) -> str:
    """An error in one paragraph: the type, the message and the line of the user's code."""
    line = users_line(error)
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return said if line is None else f"{said}\n  at {line}"


def users_line(error: BaseException) -> str | None:
    """The innermost line of the user's code in a traceback, with its text; else of a library other than torch."""
    not_theirs = OWN_FOLDER, "<frozen", os.path.dirname(importlib.__file__) + os.sep
    libraries = (*(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")), sys.prefix)
    lines = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    lines = [(code, line) for code, line in lines if not code.co_filename.startswith(not_theirs)]
    own = [(code, line) for code, line in lines if not code.co_filename.startswith(libraries)]
    others = [(code, line) for code, line in lines if f"{os.sep}torch{os.sep}" not in code.co_filename]
    return next((_shown(*found) for found in reversed(own or others)), None)


def _shown(code: CodeType, line: int) -> str:
    """``model.py:53, in Block.forward: the line``."""
    file, here = code.co_filename, os.getcwd() + os.sep
    function = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    return f"{file.removeprefix(here)}:{line}, in {function}: {linecache.getline(file, line).strip()}"


def _codes(frames: TracebackType | None) -> Iterator[CodeType]:
    return (frame.f_code for frame, _ in traceback.walk_tb(frames))
