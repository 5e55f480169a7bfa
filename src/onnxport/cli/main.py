"""The commands together, and the process around them."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import onnxport
from onnxport.cli.answers import Answer, command
from onnxport.cli.ending import CommandError, Ending
from onnxport.report.near_names import near
from onnxport.report.tracebacks import SWITCH

HELP = """Turns PyTorch models into ONNX files, and checks them.

Exit codes: 0 yes; 1 the answer is no (refused, mismatch, differs, missing); 2 the command is wrong; 3 a bug in
onnxport; 130 interrupted."""

SUMMARIES = {
    "export": "Export a model to an ONNX file, and check it in ONNX Runtime.",
    "verify": "Check an ONNX file against its torch model.",
    "inspect": "Show what an ONNX file holds: interface, operators, weights.",
    "diff": "Compare two ONNX files: interface, operators, weights and outputs.",
    "run": "Run an ONNX file in ONNX Runtime.",
    "ops": "List the operators of torch that can be exported.",
    "doctor": "Show what is installed, and how to get what is missing.",
    "batch": "Export many models, each in a process of its own.",
}


class Commands(TyperGroup):
    """The commands, each imported when it is used: packages that others need may be missing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            raise CommandError(f"which command? {', '.join(SUMMARIES)} (see onnxport --help)")
        return list(super().parse_args(ctx, args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in SUMMARIES:
            raise CommandError(f"there is no command {args[0]!r}{near(args[0], SUMMARIES)} (see onnxport --help)")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load_command(cmd_name) if cmd_name in SUMMARIES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


def load_command(name: str) -> Any:
    """The typer command in the module of its name."""
    try:
        module = importlib.import_module(f"onnxport.cli.commands.{name}")
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{error.name} is not installed; `onnxport doctor` shows how to install what is missing"
        ) from error
    function: Callable[..., Answer] = getattr(module, name)
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.command(name)(command(function))
    return typer.main.get_command(made)


app = typer.Typer(cls=Commands, name="onnxport", help=HELP, pretty_exceptions_enable=False, rich_markup_mode=None)


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
    """Errors keep all their frames; `Ending` decides what is shown."""
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
