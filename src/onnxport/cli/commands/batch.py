"""`onnxport batch`: many exports from a recipe, each in a process of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxport.cli.answers import COMMON, Answer
from onnxport.cli.commands.export import export
from onnxport.cli.ending import NO, WRONG_COMMAND, YES
from onnxport.cli.processes import Ended, run_limited
from onnxport.cli.recipes import Option, Recipe, read_recipes
from onnxport.cli.screen import paragraph, table


def batch(
    recipes: Annotated[str, typer.Argument(metavar="recipes.toml", help="[defaults] and [[model]] tables.")],
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="How many run at the same time.")] = 1,
    quiet: bool = False,
) -> Answer:
    """Export many models, each in a process of its own.

    A hang or a crash ends that one alone.
    """
    read = read_recipes(recipes, export_options())
    folder = Path(recipes).resolve().parent
    interrupted = threading.Event()

    def carry_out(recipe: Recipe) -> dict[str, Any]:
        words = ["export", *recipe.words, "--json", "--quiet"]
        row = _row(recipe, run_limited(words, folder, recipe.timeout, recipe.memory, interrupted))
        if not quiet and not interrupted.is_set():
            paragraph(f"{row['name']}: {row['status']}, {row['seconds']:.1f} s")
        return row

    with ThreadPoolExecutor(jobs) as pool:
        try:
            rows = list(pool.map(carry_out, read))
        except KeyboardInterrupt:
            interrupted.set()
            pool.shutdown(cancel_futures=True)
            raise
    return Answer(all(row["status"] in ("passed", "unchecked") for row in rows), rows, lambda c: _show(c, rows))


def export_options() -> dict[str, Option]:
    """The options of `onnxport export`, by the names that recipes use."""
    made = typer.Typer(add_completion=False)
    made.command()(export)
    found = {}
    for option in typer.main.get_command(made).params:
        flags = [flag for flag in option.opts if flag.startswith("--")]
        if not flags or option.name in ("output", "help", *COMMON):
            continue
        off = next(iter(option.secondary_opts), None)
        known = Option(flags[0], off, bool(getattr(option, "is_flag", False)), bool(getattr(option, "multiple", False)))
        found.update({flag.removeprefix("--").replace("-", "_"): known for flag in flags})
    return found


def _row(recipe: Recipe, ended: Ended) -> dict[str, Any]:
    row: dict[str, Any] = {"name": recipe.name, "status": ended.stopped, "seconds": round(ended.seconds, 3)}
    if ended.stopped is not None:
        limit = f"{recipe.timeout:g} s" if ended.stopped == "timeout" else f"{recipe.memory:g} MiB"
        return {**row, "error": {"type": ended.stopped, "message": f"stopped at the limit of {limit}"}}
    if ended.code in (YES, NO):
        report = json.loads(ended.stdout)
        return {**row, "status": report["verdict"], "error": report["error"]}
    status = "invalid" if ended.code == WRONG_COMMAND else "crashed"
    said = ended.stderr.strip().removeprefix("error: ")
    return {**row, "status": status, "error": {"type": status, "message": said or f"exit code {ended.code}"}}


def _show(console: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    shown = table("name", "status", "seconds", "error", right=("seconds",))
    for row in rows:
        error = (row["error"] or {}).get("message", "")
        shown.add_row(row["name"], row["status"], f"{row['seconds']:.1f}", error.splitlines()[0] if error else "")
    console.print(shown)
