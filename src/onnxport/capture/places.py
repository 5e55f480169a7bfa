"""Loops over the places where something holds, as over the experts that some token was sent to.

How many rounds such a loop has depends on the data, and a trace holds those of its own data only. Where the loop is
over the ``nonzero()`` of a short vector it is given every place of the vector instead: a round for a place where
nothing holds then works on nothing. That this is so for a model is for its results to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.liberty import Liberty

# A longer vector is no choice among parts of a model.
MOST_PLACES = 1024
FINDS = frozenset({"nonzero", "argwhere"})
RESHAPES = frozenset({"squeeze", "flatten", "ravel", "view", "reshape"})
MAY_HOLD_PLACES = FINDS | RESHAPES
LISTS = frozenset({"unbind", "tolist"})


class Places:
    """The tensors that hold the places at which a vector is not zero, and how long the vector is."""

    def __init__(self, liberty: Liberty, depends_on_content: Callable[[torch.Tensor], bool]) -> None:
        self._depends_on_content = depends_on_content
        self._lengths: dict[int, tuple[torch.Tensor, int]] = {}
        self._liberty = liberty

    def note(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Remember what holds places, once a function has been called."""
        if not args:
            return
        if name in FINDS and self._depends_on_content(args[0]):
            length = len(args[0]) if args[0].dim() == 1 else MOST_PLACES + 1
            for found in result if isinstance(result, tuple) else (result,):
                self._lengths[id(found)] = found, length
        elif name in RESHAPES and id(args[0]) in self._lengths and result.dim() == 1:
            self._lengths[id(result)] = result, self._lengths[id(args[0])][1]

    def are_taken_apart(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a function gives the places that were found one by one."""
        if not args or id(args[0]) not in self._lengths:
            return False
        return name == "tolist" or (*args, kwargs.get("dim", 0))[1] == 0

    def all_of(self, name: str, places: torch.Tensor) -> list[Any] | tuple[torch.Tensor, ...] | None:
        """Every place of the vector; None where they are to stay those that were found."""
        _, length = self._lengths[id(places)]
        if not self._liberty.allowed or length > MOST_PLACES:
            return None
        self._liberty.used = True
        if name == "tolist":
            return list(range(length)) if places.dim() == 1 else [[place] for place in range(length)]
        with compat.untraced():
            return tuple(torch.full(places.shape[1:], place) for place in range(length))
