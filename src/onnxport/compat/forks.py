"""``torch.jit.fork`` and ``wait`` in a captured model: what is forked runs at once, and is captured with the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.compat import dispatch
from onnxport.compat.patches import replaced


class Done:
    """What stands for the result of a call that has run already."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def wait(self) -> Any:
        return self._result

    value = wait

    def done(self) -> bool:
        return True


@contextlib.contextmanager
def run_at_once() -> Iterator[None]:
    """In another thread nothing is recorded."""
    with contextlib.ExitStack() as stack:
        for name, instead in (("fork", _fork), ("_fork", _fork), ("wait", _wait), ("_wait", _wait)):
            stack.enter_context(replaced(torch.jit, name, instead))
        yield


def _fork(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return Done(function(*args, **kwargs)) if dispatch.is_seen() else NotImplemented


def _wait(future: Any) -> Any:
    return future.wait() if isinstance(future, Done) else NotImplemented
