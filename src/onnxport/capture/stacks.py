"""Where in the user's code each traced call was made, written down once for each call of torch.

The tracer writes the whole Python stack beside each node it makes, and of ten nodes seven are the constants in a call's
arguments: on deep models that takes as long as running them. So each call of torch is made on a stack of its own, which
holds nothing but a mark. The mark's line is the number of the call, and the lines that led there are kept here.
"""

from __future__ import annotations

import builtins
import contextvars
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from greenlet import greenlet

from onnxport import compat
from onnxport.capture import scopes
from onnxport.graph.ir import Source

# The file, line and function of a frame.
Line = tuple[str, int, str]

OWN_FOLDER = __file__.rsplit("capture", 1)[0]
# Stands in the place of a file in the frame that marks a call.
MARK = "<torch>"
FRAME = re.compile(r"^(.*)\((\d+)\): (.*)$")
# What runs the model: the frames from there on are the same in every call.
LOWEST = "run_flat"


def _mark() -> CodeType:
    call: Any = lambda function, args, kwargs: function(*args, **kwargs)  # noqa: E731 the first line has to be the only
    code: CodeType = call.__code__.replace(co_filename=MARK, co_name="call")
    return code


MARKED = _mark()
# What torch imports in the midst of a call, it imports for the innermost frame.
GLOBALS = {"__builtins__": builtins}


class Stacks:
    """The stacks of the calls that a trace has seen."""

    def __init__(self) -> None:
        self._calls: list[list[Line]] = [[]]

    def note(self, frame: FrameType | None) -> int:
        """Keep the lines that lead to a frame, for a call that is made there; their place."""
        self._calls.append(_kept_lines(frame))
        return len(self._calls) - 1

    def at(self, place: int) -> list[Line]:
        """The lines in a place."""
        return self._calls[place]

    def call(self, place: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of torch on a stack of its own, the mark of which is the place."""
        fresh = greenlet(FunctionType(MARKED.replace(co_firstlineno=place), GLOBALS))
        fresh.gr_context = contextvars.copy_context()
        return fresh.switch(function, args, kwargs)

    def lines(self, stack: str) -> list[Line]:
        """The user's lines, and the calls of modules, in the stack that the tracer wrote down; the innermost first."""
        found: list[Line] = []
        for line in stack.splitlines():
            match = FRAME.match(line)
            file, number, function = match.groups() if match else (OWN_FOLDER, "0", "")
            if file == MARK:
                return [*found, *self._calls[int(number)]]
            if _KEPT[file]:
                found.append((file, int(number), function))
            elif function == LOWEST and file.startswith(OWN_FOLDER):
                break
        return found


def is_users(file: str) -> bool:
    """Whether a frame in this file is neither torch's nor ours."""
    return not file.startswith((compat.TORCH_FOLDER, OWN_FOLDER)) and file != MARK


def running_lines(frame: FrameType | None) -> Iterator[Source]:
    """The lines of the user's code that are running, from a frame on, the innermost first."""
    return users_lines(_kept_lines(frame))


def users_lines(lines: Iterable[Line]) -> Iterator[Source]:
    return (_source(line) for line in lines if line[0] != scopes.FILE)


@functools.lru_cache(maxsize=1000)
def _source(line: Line) -> Source:
    return Source(*line)


def _kept_lines(frame: FrameType | None) -> list[Line]:
    found: list[Line] = []
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if _KEPT[file]:
            found.append((file, frame.f_lineno, code.co_name))
        elif code.co_name == LOWEST and file.startswith(OWN_FOLDER):
            break
        frame = frame.f_back
    return found


class _Kept(dict[str, bool]):
    """Which files have lines that are kept. Asked of every frame of every call, so each file is looked at once."""

    def __missing__(self, file: str) -> bool:
        kept = self[file] = is_users(file) or file == scopes.FILE
        return kept


_KEPT = _Kept()
