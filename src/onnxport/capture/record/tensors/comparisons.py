"""Functions that compare whole tensors and give Python a bool: as operators, the last of which is a truth value."""

from __future__ import annotations

from typing import Any, Protocol

import torch


class Listener(Protocol):
    """The recorder: what is called in its mode is recorded."""

    mode: Any


def equal(recorder: Listener, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    left, right = (*args, *kwargs.values())
    if left.dtype != right.dtype:
        return NotImplemented
    with recorder.mode:
        same = left.dim() == right.dim() and all(a == b for a, b in zip(left.shape, right.shape, strict=True))
        return same and bool(torch.eq(left, right).all())


def allclose(recorder: Listener, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with recorder.mode:
        return bool(torch.isclose(*args, **kwargs).all())


FUNCTIONS: dict[Any, Any] = {
    **dict.fromkeys((torch.equal, torch.Tensor.equal), equal),
    **dict.fromkeys((torch.allclose, torch.Tensor.allclose), allclose),
}
