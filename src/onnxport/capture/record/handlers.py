"""Errors that a model handles itself: where it does, what makes torch raise decides what the model computes."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from onnxport.capture.record.source_lines import IS_USERS, OWN_FOLDER

# The calls of the model and of its modules. What stands around the latter is looked at once, when the module is called.
CALLERS = frozenset({f"{OWN_FOLDER}capture/model/runner.py", f"{OWN_FOLDER}capture/record/calls/module_calls.py"})
# What functions of torch raise.
RAISED = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)
Kinds = tuple[type[BaseException], ...]


@dataclass(frozen=True)
class _Guarded:
    """Lines of which errors are handled: those of these types, each an expression."""

    lines: range
    types: tuple[ast.expr | None, ...]
    by: ast.expr | None = None  # the context manager that handles them, if it is no ``except``


def handles_errors(frame: FrameType | None = None, raised: Kinds = RAISED) -> bool:
    """Whether the module that is running handles what torch (or Python) raises now, and does something else then.

    The frames are those from this one on, as far as the call of the module.
    """
    frame = frame or sys._getframe(1)
    while frame is not None and (file := frame.f_code.co_filename) not in CALLERS:
        if IS_USERS[file] and _may_handle(frame.f_code):
            guarded = _guarded(file)
            line = frame.f_lineno if guarded else 0
            if any(line in one.lines and _handles(one, frame, raised) for one in guarded):
                return True
        frame = frame.f_back
    return False


def _may_handle(code: CodeType) -> bool:
    """Whether a function has a ``try`` or ``with`` at all, which Python tells from 3.11 on: most have none, and their
    files need not be parsed."""
    return getattr(code, "co_exceptiontable", None) != b""


def _handles(guarded: _Guarded, frame: FrameType, raised: Kinds) -> bool:
    """Whether what is raised is among what is handled; what is not known may be."""
    if guarded.by is not None and _named(guarded.by, frame) is not contextlib.suppress:
        return False
    for handled in guarded.types:
        found = None if handled is None else _named(handled, frame)
        for one in found if isinstance(found, tuple) else (found,):
            if not isinstance(one, type) or any(issubclass(kind, one) for kind in raised):
                return True
    return False


def _named(expression: ast.expr, frame: FrameType) -> Any:
    """What a name, or a tuple of names, stands for in a frame; None if that is not known."""
    if isinstance(expression, ast.Tuple):
        return tuple(_named(element, frame) for element in expression.elts)
    if isinstance(expression, ast.Attribute):
        return getattr(_named(expression.value, frame), expression.attr, None)
    if isinstance(expression, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if expression.id in names:
                return names[expression.id]
    return None


@functools.lru_cache(maxsize=256)
def _guarded(file: str) -> list[_Guarded]:
    """The lines of a file inside of ``try`` with a handler that does not raise again, or of ``suppress``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return list(_guarded_in(tree))


def _guarded_in(tree: ast.AST) -> Iterator[_Guarded]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            types = tuple(handler.type for handler in node.handlers if not isinstance(handler.body[-1], ast.Raise))
            yield _Guarded(_lines(node.body), types)
        elif isinstance(node, ast.With):
            for item in node.items:
                if isinstance(item.context_expr, ast.Call):
                    yield _Guarded(_lines(node.body), tuple(item.context_expr.args), item.context_expr.func)


def _lines(body: list[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
