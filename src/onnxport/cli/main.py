"""The commands together, and the process around them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer

import onnxport
from onnxport.cli.answers import Answer, command
from onnxport.cli.commands import batch, diff, doctor, export, inspect, ops, run_file, verify
from onnxport.cli.ending import Ending
from onnxport.tracebacks import SWITCH

HELP = """Turns PyTorch models into ONNX files, and checks them.

Exit codes: 0 yes; 1 the answer is no (refused, mismatch, differs, missing); 2 the command is wrong; 3 a defect of
onnxport; 130 interrupted."""

app = typer.Typer(name="onnxport", help=HELP, pretty_exceptions_enable=False, rich_markup_mode=None)
COMMANDS: dict[str, Callable[..., Answer]] = {
    "export": export.export,
    "verify": verify.verify,
    "inspect": inspect.inspect,
    "diff": diff.diff,
    "run": run_file.run_file,
    "ops": ops.ops,
    "doctor": doctor.doctor,
    "batch": batch.batch,
}
for name, function in COMMANDS.items():
    app.command(name)(command(function))


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"onnxport {onnxport.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = (
        False
    ),
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    ending = Ending(details="--traceback" in words)
    with ending, _all_frames():
        code = app(words, prog_name="onnxport", standalone_mode=False)
        ending.code = code if isinstance(code, int) else ending.code
    return ending.code


@contextlib.contextmanager
def _all_frames() -> Iterator[None]:
    """Errors keep all their frames: what people see of them is chosen when the command ends."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "full"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def run() -> None:
    """The console script."""
    sys.exit(main())
