"""Errors as users see them: the frames of their own code, without those of this package in between."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import ParamSpec, TypeVar

from onnxport.errors import BackendError, ExportError, InternalError

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
SWITCH = "ONNXPORT_TRACEBACK"

P = ParamSpec("P")
R = TypeVar("R")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public call: errors leave it without the frames of this package; ``ONNXPORT_TRACEBACK=full`` keeps them.

    An `InternalError` is to be reported with all of them.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if os.environ.get(SWITCH) != "full" and not isinstance(error, InternalError):
                _cut(error)
            raise

    return call


def _cut(error: BaseException) -> None:
    """Take this package's frames out of an error and of those that it came from.

    Of an error that is neither one of `errors` nor raised below the user's code, the place where it arose stays.
    """
    last = list(_frames(error.__traceback__))[-1:]
    for linked in _chain(error):
        linked.__traceback__ = _without_own(linked.__traceback__)
    if error.__traceback__ is None and not isinstance(error, ExportError | BackendError):
        error.__traceback__ = last[0] if last else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it came from, each once."""
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
