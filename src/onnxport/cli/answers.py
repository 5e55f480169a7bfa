"""The answer of a command, and the options of every command: `--json`, `--quiet` and `--traceback`."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from onnxport.cli.ending import NO
from onnxport.cli.screen import only_results_on_stdout, paragraph, results, told_warnings


@dataclass(frozen=True)
class Answer:
    """The result of a command: yes or no, as data, and for people.

    ``reason`` is printed to standard error; ``--traceback`` shows ``error`` instead.
    """

    yes: bool
    data: Any
    show: Callable[[Console], None] = lambda console: None
    reason: str | None = None
    error: BaseException | None = None


AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No warnings and no progress.")]
Details = Annotated[bool, typer.Option("--traceback", help="Show where an error comes from, with all frames.")]

COMMON = {"as_json": AsJson, "quiet": Quiet, "details": Details}


def command(function: Callable[..., Answer]) -> Callable[..., None]:
    """A typer command from a function that returns an answer; ``quiet`` and ``details`` are passed if it has them."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(**given: Any) -> None:
        as_json, quiet, details = given["as_json"], given["quiet"], given["details"]
        given = {name: value for name, value in given.items() if name in signature.parameters}
        with only_results_on_stdout(), told_warnings(quiet=quiet):
            answer = function(**given)
        _print(answer, as_json=as_json, details=details)
        if not answer.yes:
            raise typer.Exit(NO)

    hints = get_type_hints(function, include_extras=True)
    annotations = {name: hints[name] for name in signature.parameters if name not in COMMON} | COMMON
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, False), annotation=kind)
        for name, kind in annotations.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = annotations
    return run


def _print(answer: Answer, *, as_json: bool, details: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(answer.data, indent=2, allow_nan=False) + "\n")
    else:
        answer.show(results())
    sys.stdout.flush()
    if answer.error is not None and details:
        sys.stderr.write("".join(traceback.format_exception(answer.error)))
    elif answer.reason is not None:
        paragraph(answer.reason)
