"""The module in which each call of a record was made, and which of its calls, where they have to be distinguished."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from onnxport import compat
from onnxport.capture.record.handlers import handles_errors
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.recording import Recording
from onnxport.graph.ir import Scope

if TYPE_CHECKING:
    from onnxport.capture.model.modules import ModuleCalls


@contextlib.contextmanager
def scoped(recorder: Recording, paths: Mapping[str, nn.Module], calls: ModuleCalls) -> Iterator[None]:
    """While a model is recorded, each of its submodules tells the recorder when it is called."""
    numbers = itertools.count()
    named = {module: path for path, module in paths.items() if path and not compat.scripts.is_script_module(module)}
    through = {
        module: _through(recorder, module, path, numbers if isinstance(module, calls.apart) else None)
        for module, path in named.items()
    }
    with calls.hooked(paths), compat.called_through(through):
        yield


def _through(recorder: Recording, module: nn.Module, path: str, numbers: Iterator[int] | None) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        outer, is_guarded = recorder.scope, recorder.is_guarded
        recorder.scope = _scope(path, outer, None if numbers is None else next(numbers))
        recorder.is_guarded = is_guarded or handles_errors(sys._getframe(1))
        try:
            return compat.call_module(module, *args, **kwargs)
        finally:
            recorder.scope, recorder.is_guarded = outer, is_guarded

    return call


def _scope(path: str, outer: str, number: int | None) -> str:
    calls = outer.calls if isinstance(outer, Scope) else ()
    if number is not None:
        calls = (*calls, (number, path))
    return Scope(path, calls) if calls else path


@contextlib.contextmanager
def in_module(path: str) -> Iterator[None]:
    """What is recorded here was made in the module at this path."""
    recorder: Any = STATE.listener
    if recorder is None:
        yield
        return
    outer, recorder.scope = recorder.scope, _scope(path, recorder.scope, None)
    try:
        yield
    finally:
        recorder.scope = outer
