"""Errors that end an export: which of them are bugs of onnxport, and their message."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

from onnxport.capture.record.record import Call
from onnxport.capture.record.source_lines import IS_USERS, OWN_FOLDER
from onnxport.errors import ExportError
from onnxport.graph.ir import Node, Source

# Exceptions raised inside the model's call are the model's.
RUNNER = f"{OWN_FOLDER}capture/model/runner.py"
# Packages that onnxport itself calls.
CALLED = frozenset({"onnx", "onnx_ir", "onnxruntime"})


def is_own_mistake(error: Exception) -> bool:
    """Whether an exception is a bug of onnxport: not from the user's code, a warning filter or lack of memory."""
    if isinstance(error, (ExportError, Warning, MemoryError)):
        return False
    if getattr(error, "__notes__", None):  # which name the user's function that was called for the translation
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    codes = [frame.f_code for frame in frames]
    called = any(code.co_filename == RUNNER and code.co_name == "call" for code in codes)
    return not called and not any(map(_is_users, frames))


def _is_users(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return IS_USERS[frame.f_code.co_filename] and package not in CALLED and package not in sys.stdlib_module_names


def internal_message(error: Exception) -> str:
    return (
        f"{_line(error) or 'the model'}: a bug in onnxport ended the export: {type(error).__name__}: "
        f"{error}. Please report it, with the traceback and, if possible, the part of the model around this line."
    )


def _line(error: Exception) -> Source | None:
    """The current line of the model: that of the innermost node or recorded call in the frames."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    known = (value for frame in reversed(frames) for value in frame.f_locals.values())
    return next((value.source for value in known if isinstance(value, (Node, Call)) and value.source), None)
