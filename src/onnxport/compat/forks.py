"""``torch.jit.fork`` and ``wait`` in a captured model: what is forked runs at once, and is captured with the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.compat import dispatch


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
    names = vars(torch.jit)
    before = {name: names[name] for name in ("fork", "wait", "_fork", "_wait")}
    plain = names["fork"], names["wait"]

    def fork(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return Done(function(*args, **kwargs)) if dispatch.is_seen() else plain[0](function, *args, **kwargs)

    def wait(future: Any) -> Any:
        return future.wait() if isinstance(future, Done) else plain[1](future)

    names.update({"fork": fork, "_fork": fork, "wait": wait, "_wait": wait})
    try:
        yield
    finally:
        names.update(before)
