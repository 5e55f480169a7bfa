"""Errors that a model handles itself: where it does, what makes torch raise decides what the model computes."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from types import FrameType

from onnxport.capture.record.source_lines import IS_USERS, OWN_FOLDER

# Whoever calls the model stands outside of it.
RUNNER = f"{OWN_FOLDER}capture/model/runner.py"


def is_handled() -> bool:
    """Whether an error that is raised now would lead the model to do something else."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != RUNNER:
        file = frame.f_code.co_filename
        if IS_USERS[file] and any(frame.f_lineno in lines for lines in _guarded(file)):
            return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=256)
def _guarded(file: str) -> list[range]:
    """The lines of a file inside of ``try`` with a handler that does not raise again."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return [
        range(node.body[0].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any(not isinstance(handler.body[-1], ast.Raise) for handler in node.handlers)
    ]
