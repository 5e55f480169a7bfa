"""`onnxport ops`: the operators that can be exported."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from importlib import resources
from typing import Annotated, Any

import typer

from onnxport.cli.answers import Answer
from onnxport.cli.screen import table
from onnxport.report.near_names import near


def ops(
    pattern: Annotated[str, typer.Argument(help="A part of the name, or a pattern with * and ?.")] = "",
    opset: Annotated[int | None, typer.Option(help="Only what this opset can say.")] = None,
) -> Answer:
    """List the operators of torch that can be exported.

    Each has the oldest opset at which it was exported and found right.
    """
    known: dict[str, int] = json.loads(resources.files("onnxport.cli").joinpath("operators.json").read_text("utf-8"))
    wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    rows = [
        {"name": name, "since": since}
        for name, since in known.items()
        if (fnmatch.fnmatchcase(name, wanted) or fnmatch.fnmatchcase(name.partition("::")[2], wanted))
        and (opset is None or since <= opset)
    ]
    return Answer(
        bool(rows), rows, lambda console: _show(console, rows), None if rows else _missing(pattern, opset, known)
    )


def _missing(pattern: str, opset: int | None, known: Iterable[str]) -> str:
    hint = near(pattern, [name.rpartition("::")[2] for name in known]) if pattern else ""
    said = f"no operator matches {pattern!r}" if pattern else "there is no operator"
    at = "" if opset is None else f" at opset {opset}"
    return f"{said}{at}{hint} (see help(onnxport.converter) for adding one)"


def _show(console: Any, rows: list[dict[str, Any]]) -> None:
    shown = table("operator", "since opset", right=("since opset",))
    for row in rows:
        shown.add_row(row["name"], str(row["since"]))
    if rows:
        console.print(shown)
