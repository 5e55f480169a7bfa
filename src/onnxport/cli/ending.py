"""How a command ends: the exit codes, and what people read when something is wrong."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass, field
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
    """The command cannot be carried out as it is given; the message names the word that is wrong."""


@dataclass
class Ending:
    """The outermost frame of a command: every way out of it becomes an exit code.

    ``details`` adds tracebacks to what is said of errors.
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
        elif isinstance(error, Exception):
            self.code = DEFECT
            sys.stderr.write("".join(traceback.format_exception(error)))
            paragraph("this is a defect of onnxport: please report it, with the lines above and `onnxport doctor`")
        return isinstance(error, Exception | KeyboardInterrupt)

    def _tell(self, error: Exception) -> None:
        if self.details:
            sys.stderr.write("".join(traceback.format_exception(error)))
        else:
            said = error.format_message() if isinstance(error, typer.TyperException) else str(error)
            paragraph(f"error: {said}")


@dataclass
class ModelRun:
    """A stretch in which a model runs. An error of the model's own is kept; one of ours goes on."""

    error: Exception | None = field(default=None)

    def __enter__(self) -> ModelRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception) and not isinstance(error, ExportError) and models_line(error) is not None:
            self.error = error
            return True
        return False


@dataclass
class SourceRun:
    """A stretch in which the user's own code runs before any export: what it raises makes the command a wrong one."""

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
    """An error in one paragraph: the line of the user's code, the type and the message."""
    line = models_line(error)
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return said if line is None else f"{said}\n  at {line.filename}:{line.lineno}: {line.line}"


def models_line(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the user's model that an error passed through, else of a layer of torch's, or None."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_models(frame.filename)]
    own = [frame for frame in frames if not _is_torch(frame.filename)]
    return next(reversed(own or frames), None)


def _is_models(file: str) -> bool:
    """Whether a file is a model's: not ours, nor the machinery of Python and of torch around it."""
    if file.startswith((OWN_FOLDER, "<frozen")):
        return False
    return not _is_torch(file) or f"torch{os.sep}nn{os.sep}" in file


def _is_torch(file: str) -> bool:
    return f"{os.sep}torch{os.sep}" in file and "site-packages" in file
