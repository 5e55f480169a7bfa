"""The check for overrides in functions of torch.nn.functional, bypassed while a model is recorded."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.jit._builtins import _get_builtin_table
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from onnxport.compat.patches import injected

# Of these kinds, and lists of them, nobody has overridden a function of torch.
PLAIN = frozenset({torch.Tensor, nn.Parameter, int, float, bool, str, type(None)})
LISTS = (list, tuple, torch.Size)


def is_plain(argument: Any) -> bool:
    """Whether an argument is of no class that may have its own ways."""
    if type(argument) in LISTS:
        return all(type(element) in PLAIN for element in argument)
    return type(argument) in PLAIN


TOPK: Any = (torch.topk, torch.Tensor.topk)


def with_order(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call; of ``topk(..., sorted=False)``, which may give any order, those for the sorted one."""
    if function not in TOPK:
        return args, kwargs
    return args[:4], {**kwargs, "sorted": True}


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


class _Own(threading.local):
    """The contexts that a thread is in, the innermost last: how many modes there are, and what arguments are plain."""

    def __init__(self) -> None:
        self.contexts: list[tuple[int, Callable[[Any], bool]]] = []


_OWN = _Own()
_modes: Callable[[], int] = torch._C._len_torch_function_stack


def _instead_of(ask: Callable[..., bool]) -> Callable[..., bool]:
    def asked(*given: Any) -> bool:
        frame = sys._getframe(1)
        names = FUNCTIONS.get(frame.f_code)
        if names is None or not _OWN.contexts:
            return ask(*given)
        modes, is_plain = _OWN.contexts[-1]
        if _modes() != modes:
            return ask(*given)
        known = frame.f_locals
        return not all(is_plain(known[name]) for name in names) and ask(*given)

    return asked


@functools.cache
def _instead() -> dict[str, Callable[..., bool]]:
    """What is asked in the place of each; known to the compiler of scripts, as a model may script functions."""
    compiled = _get_builtin_table()  # type: ignore[no-untyped-call]
    instead = {name: _instead_of(getattr(functional, name)) for name in ASKING}
    for name, asked in instead.items():
        compiled[id(asked)] = compiled[id(getattr(functional, name))]
    return instead


class BypassFunctionalOverrides:
    """A context in which these functions run, in this thread, although a mode is there that would take their calls.

    The mode, which is entered next, then sees what they call. They ask as ever where ``is_plain`` does not hold for
    every argument, and where there are modes of others, which may know these functions.
    """

    def __init__(self, is_plain: Callable[[Any], bool]) -> None:
        self._is_plain = is_plain
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> None:
        self._entered.append(contextlib.ExitStack())
        modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if not all(isinstance(mode, DeviceContext) for mode in modes):
            return
        for name, asked in _instead().items():
            self._entered[-1].enter_context(injected(vars(functional), name, asked))
        _OWN.contexts.append((len(modes) + 1, self._is_plain))
        self._entered[-1].callback(_OWN.contexts.pop)

    def __exit__(self, *error: object) -> None:
        self._entered.pop().close()


class FunctionMode(TorchFunctionMode):
    """A mode that sees what the functions of torch.nn.functional call, and not these functions themselves."""

    def __init__(self, is_plain: Callable[[Any], bool]) -> None:
        super().__init__()
        self._bypass = BypassFunctionalOverrides(is_plain)

    def __enter__(self) -> Any:
        self._bypass.__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._bypass.__exit__()
