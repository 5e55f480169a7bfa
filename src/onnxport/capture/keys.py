"""Sizes that a model looks up in a dict or a set: while it is traced they are tensors, which are never found there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from onnxport import compat


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Let a size that is looked up be read as a number, which is noted with its line: what the model finds at other
    sizes is for its results to tell. It stays unfound, lest what an earlier call left in a cache become a constant."""
    plain = torch.Tensor.__hash__

    def hashed(tensor: torch.Tensor) -> int:
        if type(tensor) is torch.Tensor and compat.is_traced_size(tensor):
            int(tensor)
        return id(tensor)

    torch.Tensor.__hash__ = hashed  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.__hash__ = plain  # type: ignore[method-assign]
