"""The Python functions of torch.nn.functional, which ask before anything else whether somebody overrides them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType

from torch.nn import functional

ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def is_python(function: object) -> bool:
    """Whether a function of torch is one of these, which calls others that are written in C++."""
    return type(function) is FunctionType and function.__module__ == functional.__name__


class Unasked:
    """A context in which these functions run, in this thread, although a mode is there that would take their calls.

    The mode then sees what they call.
    """

    def __init__(self) -> None:
        self._before = {name: getattr(functional, name) for name in ASKING}
        thread = threading.get_ident()

        def in_other_threads(ask: Callable[..., bool]) -> Callable[..., bool]:
            return lambda *given: threading.get_ident() != thread and ask(*given)

        self._within = {name: in_other_threads(ask) for name, ask in self._before.items()}

    def __enter__(self) -> None:
        vars(functional).update(self._within)

    def __exit__(self, *error: object) -> None:
        vars(functional).update(self._before)
