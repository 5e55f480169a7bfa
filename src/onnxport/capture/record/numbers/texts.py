"""Texts of numbers. In a message such a text is joined with others, which C does without asking it; who asks for its
length, its characters or its value computes with it, and that drops the number's expression."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class NumberText(str):
    """The text of a number; ``lost`` is called when something else than a text is made of it, but for its length where
    ``counted`` tells that, and for a key in the frame of a function, which ``looked_up`` is called with."""

    lost: Callable[[], Any]
    counted: Callable[[], int] | None
    looked_up: Callable[[FrameType], Any] | None

    def __hash__(self) -> int:
        if self.looked_up is None:
            self.lost()
        else:
            self.looked_up(sys._getframe(1))
        return str.__hash__(self)

    def __len__(self) -> int:
        if self.counted is not None:
            return self.counted()
        self.lost()
        return str.__len__(self)

    def __int__(self) -> int:
        self.lost()
        return int(str(self))

    def __float__(self) -> float:
        self.lost()
        return float(str(self))

    def __reduce__(self) -> Any:
        return str, (str(self),)


def text_of(
    text: str,
    lost: Callable[[], Any],
    counted: Callable[[], int] | None = None,
    looked_up: Callable[[FrameType], Any] | None = None,
) -> str:
    made = NumberText(text)
    made.lost, made.counted, made.looked_up = lost, counted, looked_up
    return made


def _asked(name: str) -> Callable[..., Any]:
    original = getattr(str, name)

    def method(self: NumberText, *args: Any, **kwargs: Any) -> Any:
        self.lost()
        return original(self, *args, **kwargs)

    return method


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "getitem", "iter", "contains", "mul", "rmul", "mod")
for _name in (*(f"__{name}__" for name in _COMPARED), *(name for name in vars(str) if not name.startswith("_"))):
    setattr(NumberText, _name, _asked(_name))
