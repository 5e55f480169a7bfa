"""The Python functions of torch.nn.functional, which ask before anything else whether somebody overrides them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

FILE = functional.__file__
ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
# These check their sizes in a way that takes no tensors, and are called otherwise while a model is traced.
UNPOOLS = {functional.max_unpool1d: 1, functional.max_unpool2d: 2, functional.max_unpool3d: 3}
# Those that call others, which are written in C++.
FUNCTIONS = frozenset(
    function.__code__
    for function in vars(functional).values()
    if type(function) is FunctionType and function.__module__ == functional.__name__ and function not in UNPOOLS
)


class Unasked:
    """A context in which these functions run, in this thread, although a mode is there that would take their calls.

    The mode, which is entered next, then sees what they call. They ask as ever where ``is_plain`` does not hold for
    every argument, and where there are modes of others, which may know these functions.
    """

    def __init__(self, is_plain: Callable[[Any], bool]) -> None:
        self._is_plain = is_plain
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        before = {name: getattr(functional, name) for name in ASKING}
        self._before.append(before)
        modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if all(isinstance(mode, DeviceContext) for mode in modes):
            vars(functional).update({name: self._instead_of(ask, len(modes) + 1) for name, ask in before.items()})

    def __exit__(self, *error: object) -> None:
        vars(functional).update(self._before.pop())

    def _instead_of(self, ask: Callable[..., bool], modes: int) -> Callable[..., bool]:
        thread, is_plain = threading.get_ident(), self._is_plain
        count = torch._C._len_torch_function_stack

        def asked(*given: Any) -> bool:
            frame = sys._getframe(1)
            if frame.f_code in FUNCTIONS and count() == modes and threading.get_ident() == thread:
                # Nothing has run yet: what is local are the arguments.
                return not all(map(is_plain, frame.f_locals.values())) and ask(*given)
            return ask(*given)

        return asked
