"""The module in which each node of a trace was made, told by the one thing that the tracer keeps of Python: the stack.

While a model is traced, each of its submodules is called through a function of its own, whose name is the module's
path. The tracer's own scopes would say the same, but cost half as much time again: it makes a block of each call, and
takes them all apart in the end.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from onnxport import compat
from onnxport.graph.ir import CALL_MARK, Scope

FILE = __file__
# In front of the path in the function's name, which tells it from the other functions of this file.
MARK = "module "


def module_scopes(paths: Mapping[str, nn.Module], numbers: Mapping[str, Iterator[int]]) -> AbstractContextManager[None]:
    """Let the stack tell which of these modules runs; ``numbers`` is for those whose calls are told apart."""
    named = {module: path for path, module in paths.items() if path and not compat.scripts.is_script_module(module)}
    hooked = compat.has_global_hooks()
    calls = {
        module: _numbered(module, path, numbers[path], hooked) if path in numbers else _named(module, path, hooked)
        for module, path in named.items()
    }
    return compat.called_through(calls)


def _named(module: nn.Module, name: str, hooked: bool) -> Callable[..., Any]:
    """A function that calls the module, with this name on the stack."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if hooked or compat.has_hooks(module):
            return compat.call_module(module, *args, **kwargs)
        # The short way: a call of the module would open a scope of the tracer's.
        return module.forward(*args, **kwargs)

    code = call.__code__.replace(co_name=f"{MARK}{name}")
    return types.FunctionType(code, call.__globals__, closure=call.__closure__)


def _numbered(module: nn.Module, path: str, numbers: Iterator[int], hooked: bool) -> Callable[..., Any]:
    """A function that calls the module, with another name on the stack in each call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _named(module, f"{path}{CALL_MARK}{next(numbers)}", hooked)(*args, **kwargs)

    return call


@functools.lru_cache(maxsize=1000)
def scope_in(functions: tuple[str, ...]) -> str:
    """The scope of what was made below these functions of this file, the innermost first."""
    names = [name.removeprefix(MARK).partition(CALL_MARK) for name in functions if name.startswith(MARK)]
    calls = tuple((int(number), path) for path, mark, number in reversed(names) if mark)
    innermost = names[0][0] if names else ""
    return Scope(innermost, calls) if calls else innermost
