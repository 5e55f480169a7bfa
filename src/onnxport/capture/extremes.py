"""Python's ``min`` and ``max`` of sizes: while a model is traced they are operators, and not conditions that decide."""

from __future__ import annotations

import builtins
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport import compat


@contextlib.contextmanager
def followed() -> Iterator[None]:
    """Let the trace follow them. Of anything but sizes and integers they are what they always are."""
    plain = builtins.min, builtins.max
    builtins.min, builtins.max = _of_sizes(plain[0], torch.minimum), _of_sizes(plain[1], torch.maximum)
    try:
        yield
    finally:
        builtins.min, builtins.max = plain


def _of_sizes(plain: Any, operator: Callable[..., torch.Tensor]) -> Any:
    @functools.wraps(plain)
    def extreme(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if len(args) == 1 and type(args[0]) in (list, tuple) else args
        has_tensors = len(given) > 1 and any(isinstance(number, torch.Tensor) for number in given)
        if not has_tensors or kwargs or not all(map(_is_size, given)):
            return plain(*args, **kwargs)
        return functools.reduce(operator, map(torch.as_tensor, given))

    return extreme


def _is_size(number: Any) -> bool:
    return compat.is_traced_size(number) if isinstance(number, torch.Tensor) else type(number) is int
