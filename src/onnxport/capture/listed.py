"""Integers of a tensor as a Python list, each of which the tracer follows to where it is used as a size or an operand.

In Python they are tensors without dimensions, like the sizes that the tracer gives. They are taken from their tensor
only where they are used: what nobody uses leaves nothing in the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def is_listable(tensor: torch.Tensor) -> bool:
    dtype = tensor.dtype
    return tensor.dim() > 0 and not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


class Listed:
    """The numbers of the lists made so far, and where each comes from."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[torch.Tensor, torch.Tensor, tuple[int, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def of(self, tensor: torch.Tensor, content: Any, place: tuple[int, ...] = ()) -> Any:
        """What ``tensor.tolist()`` gives, ``content``, with a tensor for each number."""
        if isinstance(content, list):
            return [self.of(tensor, element, (*place, index)) for index, element in enumerate(content)]
        number = torch.tensor(content, dtype=tensor.dtype)
        self._places[id(number)] = number, tensor, place
        return number

    def holds(self, argument: Any) -> bool:
        """Whether a number of the lists is among the arguments."""
        if isinstance(argument, torch.Tensor):
            return id(argument) in self._places
        if isinstance(argument, slice):
            argument = argument.start, argument.stop, argument.step
        if isinstance(argument, dict):
            argument = list(argument.values())
        return isinstance(argument, (list, tuple)) and any(map(self.holds, argument))

    def followed(self, argument: Any) -> Any:
        """The arguments with each such number taken from its tensor, which the tracer sees."""
        if isinstance(argument, torch.Tensor) and id(argument) in self._places:
            _, tensor, place = self._places[id(argument)]
            for index in place:
                tensor = tensor[index]
            return tensor
        return self._each(argument, self.followed)

    def plain(self, argument: Any) -> Any:
        """The arguments with Python's integers in place of such numbers."""
        if isinstance(argument, torch.Tensor) and id(argument) in self._places:
            return int(argument)
        return self._each(argument, self.plain)

    @staticmethod
    def _each(argument: Any, function: Callable[[Any], Any]) -> Any:
        if isinstance(argument, slice):
            return slice(function(argument.start), function(argument.stop), function(argument.step))
        if type(argument) in (list, tuple):
            return type(argument)(map(function, argument))
        return {name: function(given) for name, given in argument.items()} if type(argument) is dict else argument
