"""What is replaced in Python while a model is recorded, each with its reason.

A replacement is in place as long as somebody records. Each thread asks that of its own export, of two of which one runs
inside of the other that of the inner one; in every other thread it does what the original does.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep

# A function that is given the original and the arguments, and returns NotImplemented where the original is to be used.
Instead = Callable[..., Any]

# What models ask to learn whether they are captured: then they take no short cuts that only the example's data allow.
TRACING: tuple[tuple[Any, str, Any], ...] = (
    (torch.jit, "is_tracing", True),
    (torch._C, "_get_tracing_state", True),
    (torch.jit._trace, "is_tracing", True),
)
# Functions with ``torch.jit.script_if_tracing`` are called by this one, which asks for them.
_SCRIPTS_IF_TRACED = torch.jit._trace._script_if_tracing(lambda: None).__code__

_LOCK = threading.Lock()
_ABSENT = object()
_USERS: dict[tuple[int, str], tuple[int, Any]] = {}


class _Own(threading.local):
    """What the exports of a thread have put in the place of something, the innermost last."""

    def __init__(self) -> None:
        self.instead: dict[tuple[int, str], list[Instead]] = {}


_OWN = _Own()


@contextlib.contextmanager
def _counted(key: tuple[int, str], put: Callable[[], Any], restore: Callable[[Any], None]) -> Iterator[None]:
    """The first user puts something in place, and the last one to leave restores what was there."""
    with _LOCK:
        count, original = _USERS.get(key, (0, None))
        _USERS[key] = count + 1, original if count else put()
    try:
        yield
    finally:
        with _LOCK:
            count, original = _USERS.pop(key)
            if count > 1:
                _USERS[key] = count - 1, original
            else:
                restore(original)


def shared(
    key: tuple[int, str], make: Callable[[], contextlib.AbstractContextManager[Any]]
) -> contextlib.AbstractContextManager[None]:
    """A context of the process, which the first user enters and the last one leaves."""

    def put() -> contextlib.AbstractContextManager[Any]:
        context = make()
        context.__enter__()
        return context

    return _counted(key, put, lambda context: context.__exit__(None, None, None))


@contextlib.contextmanager
def replaced(holder: Any, name: str, instead: Instead, *, static: bool = False) -> Iterator[None]:
    """``holder.name`` asks ``instead`` first, in this thread. A ``static`` method of a class is replaced by one."""
    key = id(holder), name
    own = _OWN.instead.setdefault(key, [])

    def put() -> Any:
        original = vars(holder).get(name, _ABSENT)
        wrapper = _wrapper(getattr(holder, name), key)
        setattr(holder, name, staticmethod(wrapper) if static else wrapper)
        return original

    def restore(original: Any) -> None:
        if original is _ABSENT:  # a class has it from its base
            delattr(holder, name)
        else:
            setattr(holder, name, original)

    with _counted(key, put, restore):
        own.append(instead)
        try:
            yield
        finally:
            own.pop()


def _wrapper(original: Any, key: tuple[int, str]) -> Any:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        own = _OWN.instead.get(key)
        result = own[-1](*args, **kwargs) if own else NotImplemented
        return original(*args, **kwargs) if result is NotImplemented else result

    return wrapper


@contextlib.contextmanager
def answered(kind: Any, name: str, answer: Callable[[], Any]) -> Iterator[None]:
    """A property of a class is what ``answer`` gives, in this thread."""
    key = id(kind), name
    own = _OWN.instead.setdefault(key, [])

    def put() -> Any:
        original = vars(kind)[name]

        def read(holder: Any) -> Any:
            answers = _OWN.instead.get(key)
            return answers[-1]() if answers else original.fget(holder)

        setattr(kind, name, property(read, original.fset, doc=original.__doc__))
        return original

    with _counted(key, put, lambda original: setattr(kind, name, original)):
        own.append(answer)
        try:
            yield
        finally:
            own.pop()


def injected(names: dict[str, Any], name: str, value: Any) -> contextlib.AbstractContextManager[None]:
    """Another value for a name of a module, which may hide a built-in one."""

    def put() -> Any:
        original = names.get(name, _ABSENT)
        names[name] = value
        return original

    def restore(original: Any) -> None:
        if original is _ABSENT:
            del names[name]
        else:
            names[name] = original

    return _counted((id(names), name), put, restore)


@contextlib.contextmanager
def answering_as_traced(is_traced: Callable[[list[CodeType], Any], bool]) -> Iterator[None]:
    """Models that ask hear that they are traced where ``is_traced`` says so; torch itself, which would act on it, does
    not. It is given the function that asks and its caller, and the function if it is to be scripted then."""

    def instead(answer: Any) -> Instead:
        def asked() -> Any:
            frame = sys._getframe(2)
            scripted = frame.f_locals["fn"] if frame.f_code is _SCRIPTS_IF_TRACED else None
            if frame.f_code.co_filename.startswith(TORCH_FOLDER) and scripted is None:
                return NotImplemented
            code = frame.f_code if scripted is None else scripted.__code__
            asking = [code] if frame.f_back is None else [code, frame.f_back.f_code]
            return answer if is_traced(asking, scripted) else NotImplemented

        return asked

    with contextlib.ExitStack() as stack:
        for holder, name, answer in TRACING:
            stack.enter_context(replaced(holder, name, instead(answer)))
        yield
