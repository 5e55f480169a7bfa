"""What is replaced in Python while a model is recorded, each with its reason.

A replacement is in place as long as somebody records, and does what the original does in every other thread and for
every other argument.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep

# A function that is given the original and the arguments, and returns NotImplemented where the original is to be used.
Instead = Callable[..., Any]

# What models ask to learn whether they are captured: then they take no short cuts that only the example's data allow.
TRACING: tuple[tuple[Any, str, Any], ...] = (
    (torch.jit, "is_tracing", True),
    (torch._C, "_get_tracing_state", True),
)

_LOCK = threading.Lock()
_INHERITED = object()  # what a class has from its base
_USERS: dict[tuple[int, str], tuple[int, Any]] = {}


@contextlib.contextmanager
def replaced(holder: Any, name: str, instead: Instead, *, static: bool = False) -> Iterator[None]:
    """``holder.name`` asks ``instead`` first. Several exports may replace it at once; the last one to leave restores.

    A ``static`` method of a class is replaced by one.
    """
    key = id(holder), name
    with _LOCK:
        count, original = _USERS.get(key, (0, None))
        if not count:
            original = vars(holder).get(name, _INHERITED)
            wrapper = _wrapper(getattr(holder, name), instead)
            setattr(holder, name, staticmethod(wrapper) if static else wrapper)
        _USERS[key] = count + 1, original
    try:
        yield
    finally:
        with _LOCK:
            count, original = _USERS.pop(key)
            if count > 1:
                _USERS[key] = count - 1, original
            elif original is _INHERITED:
                delattr(holder, name)
            else:
                setattr(holder, name, original)


def _wrapper(original: Any, instead: Instead) -> Any:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = instead(*args, **kwargs)
        return original(*args, **kwargs) if result is NotImplemented else result

    return wrapper


_ABSENT = object()


@contextlib.contextmanager
def injected(names: dict[str, Any], name: str, value: Any) -> Iterator[None]:
    """Another value for a name of a module, which may hide a built-in one."""
    key = id(names), name
    with _LOCK:
        count, original = _USERS.get(key, (0, names.get(name, _ABSENT)))
        names[name] = value
        _USERS[key] = count + 1, original
    try:
        yield
    finally:
        with _LOCK:
            count, original = _USERS.pop(key)
            if count > 1:
                _USERS[key] = count - 1, original
            elif original is _ABSENT:
                del names[name]
            else:
                names[name] = original


@contextlib.contextmanager
def answering_as_traced(recording: Callable[[], bool]) -> Iterator[None]:
    """Models that ask whether they are traced hear that they are; torch itself, which would act on it, does not."""

    def instead(answer: Any) -> Instead:
        def asked() -> Any:
            caller = sys._getframe(2).f_code.co_filename
            return answer if recording() and not caller.startswith(TORCH_FOLDER) else NotImplemented

        return asked

    with contextlib.ExitStack() as stack:
        for holder, name, answer in TRACING:
            stack.enter_context(replaced(holder, name, instead(answer)))
        yield
