"""``torch.compile``: compiled functions run eagerly while a model is recorded."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.compat.patches import replaced, shared


@contextlib.contextmanager
def run_eagerly(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Functions that were compiled before, and those that the model compiles itself, run without the compiler."""

    def compile_nothing(model: Any = None, **options: Any) -> Any:
        if not is_wanted():
            return NotImplemented
        return (lambda function: function) if model is None else model

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(torch, "compile", compile_nothing))
        if "torch._dynamo" in sys.modules:  # else nothing was compiled, and the import takes a second
            eager = functools.partial(torch.compiler.set_stance, "force_eager")
            stack.enter_context(shared((id(torch.compiler), "stance"), eager))
        yield
