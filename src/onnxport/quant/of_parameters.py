"""What a model computes from its parameters alone: a normalised weight, a product of two thin matrices."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator
from typing import Any

import torch


class Constants:
    """The tensors of one run that depend on parameters and buffers and on nothing else. ``stored`` are their ids."""

    def __init__(self, stored: Collection[int]) -> None:
        self._stored = stored
        self._computed: dict[int, Any] = {}

    def holds(self, x: Any) -> bool:
        if not isinstance(x, torch.Tensor):
            return False
        known = self._computed.get(id(x))
        return id(x) in self._stored or (known is not None and known() is x)

    def note(self, arguments: Any, result: Any) -> None:
        """A call was made: its result is constant if all tensors that it was given are, and there are some."""
        given = list(_tensors(arguments))
        if given and all(map(self.holds, given)):
            for x in _tensors(result):
                self._remember(x)

    def _remember(self, x: torch.Tensor) -> None:
        key = id(x)
        self._computed[key] = weakref.ref(x, lambda _: self._computed.pop(key, None))


def _tensors(argument: Any) -> Iterator[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for element in argument:
            yield from _tensors(element)
    elif isinstance(argument, dict):
        yield from _tensors(list(argument.values()))
