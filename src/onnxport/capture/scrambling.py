"""Masks filled anew while a model is traced, so that the sizes which depend on them are others.

Such a trace is laid beside those on true data to tell which sizes are free. What it computes is of no use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport import compat

# Functions whose result has an element for each place where a mask holds.
COUNTING = frozenset({"nonzero", "argwhere", "where", "masked_select", "__getitem__", "bincount"})


class Scrambling:
    """Random content for the masks of one trace. ``depends_on_content`` tells those that the inputs decide."""

    def __init__(self, seed: int, depends_on_content: Callable[[torch.Tensor], bool]) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._depends_on_content = depends_on_content

    def before(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Fill the masks that a function is about to count."""
        for mask in _masks(name, args):
            if self._depends_on_content(mask):
                content = self._numbers(*args, **kwargs) if name == "bincount" else self._places(mask)
                # Memory that a tensor shows twice cannot be written to.
                with compat.untraced(), contextlib.suppress(RuntimeError):
                    mask.copy_(content)

    def _places(self, mask: torch.Tensor) -> torch.Tensor:
        share = float(torch.rand((), generator=self._generator)) * 0.6 + 0.2
        return torch.rand(mask.shape, generator=self._generator) < share

    def _numbers(self, input: torch.Tensor, weights: Any = None, minlength: int = 0) -> torch.Tensor:
        """What `bincount` could be given: numbers larger than those there, and than the length asked for."""
        known = max(int(input.max()) if input.numel() else 0, int(minlength), 1)
        return torch.randint(known, 3 * known, input.shape, generator=self._generator)


def _masks(name: str, args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    if name == "where" and len(args) > 1:
        return
    if name not in ("masked_select", "__getitem__"):
        yield from args[:1]
        return
    given = args[1] if isinstance(args[-1], tuple) else args[1:]
    yield from (mask for mask in given if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool)
