"""The end of a command: exit codes and error messages."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from dataclasses import dataclass
from types import TracebackType

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
        self.error: Exception | None = None

    def __enter__(self) -> ModelRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, ExportError):
            return False
        if not any(frame.filename in self._files for frame in traceback.extract_tb(frames)):
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
    from onnxport.graph.source_paths import shown_path  # noqa: PLC0415

    line = users_line(error)
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if line is None:
        return said
    return f"{said}\n  at {shown_path(line.filename)}:{line.lineno}, in {line.name}: {line.line}"


def users_line(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the user's code in a traceback; else of a library other than torch."""
    not_theirs = OWN_FOLDER, "<frozen", os.path.dirname(importlib.__file__) + os.sep
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(not_theirs)]
    libraries = (*(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")), sys.prefix)
    own = [frame for frame in frames if not frame.filename.startswith(libraries)]
    others = [frame for frame in frames if f"{os.sep}torch{os.sep}" not in frame.filename]
    return next(reversed(own or others), None)
