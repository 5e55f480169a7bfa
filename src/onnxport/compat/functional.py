"""The Python functions of torch.nn.functional, which ask before anything else whether somebody overrides them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.jit._builtins import _get_builtin_table
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

# Of these kinds, and lists of them, nobody has overridden a function of torch.
PLAIN = frozenset({torch.Tensor, nn.Parameter, int, float, bool, str, type(None)})
LISTS = (list, tuple, torch.Size)


def is_plain(argument: Any) -> bool:
    """Whether an argument is of no class that may have its own ways."""
    if type(argument) in LISTS:
        return all(type(element) in PLAIN for element in argument)
    return type(argument) in PLAIN


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
# These check their sizes in Python, and are called otherwise while a model is recorded.
UNPOOLS = {functional.max_unpool1d: 1, functional.max_unpool2d: 2, functional.max_unpool3d: 3}
# Those that call others, which are written in C++, with the names of their arguments.
FUNCTIONS = {
    function.__code__: _arguments(function.__code__)
    for function in vars(functional).values()
    if type(function) is FunctionType and function.__module__ == functional.__name__ and function not in UNPOOLS
}


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
        if not all(isinstance(mode, DeviceContext) for mode in modes):
            return
        compiled = _get_builtin_table()  # type: ignore[no-untyped-call]
        for name, ask in before.items():
            within = self._instead_of(ask, len(modes) + 1)
            compiled[id(within)] = compiled[id(ask)]  # a model may script functions while it runs
            setattr(functional, name, within)

    def __exit__(self, *error: object) -> None:
        compiled = _get_builtin_table()  # type: ignore[no-untyped-call]
        for name, ask in self._before.pop().items():
            within = getattr(functional, name)
            if within is not ask:
                setattr(functional, name, ask)
                del compiled[id(within)]

    def _instead_of(self, ask: Callable[..., bool], modes: int) -> Callable[..., bool]:
        thread, is_plain = threading.get_ident(), self._is_plain
        count = torch._C._len_torch_function_stack

        def asked(*given: Any) -> bool:
            frame = sys._getframe(1)
            names = FUNCTIONS.get(frame.f_code)
            if names is None or count() != modes or threading.get_ident() != thread:
                return ask(*given)
            known = frame.f_locals
            return not all(is_plain(known[name]) for name in names) and ask(*given)

        return asked
