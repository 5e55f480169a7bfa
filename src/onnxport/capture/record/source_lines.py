"""The line of the user's code that is running: the innermost frame that is neither torch's, numpy's nor ours."""

from __future__ import annotations

import dataclasses
import dis
import functools
import os
import sys
import traceback
from types import CodeType, FrameType
from typing import Any

import numpy as np

from onnxport import compat
from onnxport.graph.ir import Source

OWN_FOLDER = __file__.rsplit("capture", 1)[0]
NUMPY_FOLDER = os.path.dirname(np.__file__) + os.sep
TENSOR_FILES = tuple(f"{compat.TORCH_FOLDER}{name}" for name in ("_tensor.py", "overrides.py"))


class _Users(dict[str, bool]):
    """Which files are the user's. Asked of every frame of every call, so each file is looked at once."""

    def __missing__(self, file: str) -> bool:
        found = self[file] = not file.startswith((compat.TORCH_FOLDER, NUMPY_FOLDER, OWN_FOLDER, "<frozen"))
        return found


IS_USERS = _Users()


def function_name(code: CodeType) -> str:
    """``Block.forward``; Python 3.10 knows the name of the function alone."""
    if sys.version_info >= (3, 11):
        return code.co_qualname
    return code.co_name


@functools.lru_cache(maxsize=4096)
def _source(file: str, line: int, function: str) -> Source:
    return Source(file, line, function)


def running_line(frame: FrameType | None = None) -> Source | None:
    """The line that led here, from a frame on."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if IS_USERS[code.co_filename]:
            return _source(code.co_filename, frame.f_lineno, function_name(code))
        frame = frame.f_back
    return None


def running_stack(outermost: CodeType) -> Source | None:
    """The line that led here with the user's frames around it, as far as a function of ours that calls the model."""
    frame: FrameType | None = sys._getframe(1)
    found: list[Source] = []
    while frame is not None and frame.f_code is not outermost:
        code = frame.f_code
        if IS_USERS[code.co_filename]:
            found.append(_source(code.co_filename, frame.f_lineno, function_name(code)))
        frame = frame.f_back
    return dataclasses.replace(found[0], callers=tuple(found[1:])) if found else None


def running_names() -> dict[str, Any]:
    """The names of the module whose code reads or converts a number, torch's own modules among them."""
    frame = _reading_frame()
    return {} if frame is None else frame.f_globals


def names_around_call() -> dict[str, Any]:
    """The names of the module whose code calls a built-in function that compares numbers, as ``min`` does.

    There are none where the code compares them itself.
    """
    frame = _reading_frame()
    return {} if frame is None or "CALL" not in instruction(frame.f_code, frame.f_lasti) else frame.f_globals


def names_in(source: Source | None) -> dict[str, Any]:
    """The names of the module that a line is in."""
    modules = list(sys.modules.values()) if source is not None else []
    return next((vars(m) for m in modules if source and getattr(m, "__file__", None) == source.file), {})


def is_read_by_torch() -> bool:
    """Whether torch itself reads a content, which it does to check arguments: no method of tensors, and not ours."""
    frame = _reading_frame()
    return frame is not None and frame.f_code.co_filename.startswith(compat.TORCH_FOLDER)


def _reading_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OWN_FOLDER, *TENSOR_FILES)):
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=4096)
def instruction(code: CodeType, offset: int) -> str:
    return dis.opname[code.co_code[offset]]


def raised_at(error: BaseException) -> Source | None:
    """The innermost line of the user's code that an error went through."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [Source(code.co_filename, line, function_name(code)) for code, line in frames if IS_USERS[code.co_filename]]
    return users[-1] if users else None
