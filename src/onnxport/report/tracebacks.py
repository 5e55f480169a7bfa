"""Tracebacks for users: with the frames of their own code, without those of this package."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import ParamSpec, TypeVar

from onnxport.errors import BackendError, ExportError, InternalError
from onnxport.report.near_names import near

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
SWITCH = "ONNXPORT_TRACEBACK"
KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

P = ParamSpec("P")
R = TypeVar("R")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a public call: its errors do not show frames of this package, unless ``ONNXPORT_TRACEBACK=full``.

    An `InternalError` keeps all frames, for a bug report. A misspelt keyword is an error that names similar ones.
    """
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    keywords = [parameter.name for parameter in parameters if parameter.kind in KEYWORDS]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if not takes_any:
                _check_keywords(function.__name__, kwargs, keywords)
            return function(*args, **kwargs)
        except BaseException as error:
            if os.environ.get(SWITCH) != "full" and not isinstance(error, InternalError):
                _cut(error)
            raise

    return call


def _check_keywords(name: str, given: Iterable[str], keywords: Sequence[str]) -> None:
    for keyword in given:
        if keyword not in keywords:
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}{near(keyword, keywords)}")


def _cut(error: BaseException) -> None:
    """Remove this package's frames from an error and from its causes.

    If an error is neither one of `errors` nor raised below the user's code, the frame that raised it stays.
    """
    last = list(_frames(error.__traceback__))[-1:]
    for linked in _chain(error):
        linked.__traceback__ = _without_own(linked.__traceback__)
    if error.__traceback__ is None and not isinstance(error, ExportError | BackendError):
        error.__traceback__ = last[0] if last else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, each once."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        linked = pending.pop()
        if linked is None or id(linked) in seen:
            continue
        seen.add(id(linked))
        yield linked
        pending += [linked.__cause__, linked.__context__]


def _without_own(frames: TracebackType | None) -> TracebackType | None:
    kept = [frame for frame in _frames(frames) if not frame.tb_frame.f_code.co_filename.startswith(OWN_FOLDER)]
    linked: TracebackType | None = None
    for frame in reversed(kept):
        linked = TracebackType(linked, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return linked


def _frames(frames: TracebackType | None) -> Iterator[TracebackType]:
    while frames is not None:
        yield frames
        frames = frames.tb_next
