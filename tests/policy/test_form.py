"""The habits of the code that a reader relies on: small files and functions, no broad excepts, no printing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.policy.source import ROOT, Module, dotted, modules

FILE_LINES = 400
FUNCTION_LINES = 40
FOLDER_ENTRIES = 18
ROOT_ENTRIES = 24
SAME_NAME = 2

# No rooms: what Python leaves behind, and the marker by which type checkers know that the package has annotations.
NO_ENTRIES = {"__pycache__", "py.typed"}

# Who prints: the graph that verbose=True asks for. The command line writes through rich's consoles.
PRINTERS = {"program/graph_text.py"}

BROAD = {"Exception", "BaseException"}
# The public call: what is raised by mistake becomes an InternalError there, and nowhere else.
CATCHES_ALL = "api.py"

EVERY_MODULE = pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's code: neither its signature nor its docstring makes it hard to follow."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if not body:
        return 0
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def broad_handlers(tree: ast.Module) -> Iterator[int]:
    """Lines that catch everything. ``except BaseException`` may: to put things right and raise again."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield node.lineno
                continue
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {dotted(name) for name in caught}
            last = node.body[-1]
            raises_again = isinstance(last, ast.Raise) and last.exc is None
            if "Exception" in names or ("BaseException" in names and not raises_again):
                yield node.lineno
        elif isinstance(node, ast.Call) and dotted(node.func) in {"suppress", "contextlib.suppress"}:
            yield from (node.lineno for argument in node.args if dotted(argument) in BROAD)


def too_long(module: Module) -> Iterator[str]:
    lines = len(module.text.splitlines())
    if lines > FILE_LINES:
        yield f"{module.name} has {lines} lines: split it along its meaning"
    for function in module.functions():
        if body_lines(function) > FUNCTION_LINES:
            yield f"{module.name}:{function.lineno} {function.name} has {body_lines(function)} lines"


@EVERY_MODULE
def test_files_and_functions_are_short(module: Module) -> None:
    found = list(too_long(module))
    assert not found, "\n".join(found)


@EVERY_MODULE
def test_no_broad_except(module: Module) -> None:
    wrong = [f"{module.name}:{line}" for line in broad_handlers(module.tree)]
    if module.name == CATCHES_ALL:
        assert len(wrong) == 1
        return
    assert not wrong, f"catch the errors that are expected, by type: {', '.join(wrong)}"


@EVERY_MODULE
def test_the_library_does_not_print(module: Module) -> None:
    if module.name in PRINTERS:
        return
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    wrong = [f"{module.name}:{call.lineno}" for call in calls if dotted(call.func) == "print"]
    assert not wrong, f"return it, warn or log instead: {', '.join(wrong)}"


def test_rooms_are_small_and_say_what_they_are_for() -> None:
    for folder in [path for path in (ROOT, *ROOT.rglob("*")) if path.is_dir() and path.name != "__pycache__"]:
        entries = [path for path in folder.iterdir() if path.name not in NO_ENTRIES]
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert docstring, f"{folder.name}/__init__.py does not say what the folder is for"
        most = ROOT_ENTRIES if folder == ROOT else FOLDER_ENTRIES
        assert len(entries) <= most, f"{folder.name} has {len(entries)} entries: divide it"


def test_few_modules_have_one_name() -> None:
    names = Counter(module.path.name for module in modules() if module.path.name != "__init__.py")
    assert not [name for name, count in names.items() if count > SAME_NAME]
