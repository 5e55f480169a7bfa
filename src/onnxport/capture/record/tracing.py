"""What functions of a model hear that ask whether they are traced.

Most of them do then what holds for any data; a few take sizes for tensors, as they are to torch's tracer. Where that
makes a model fail, only those functions hear it that decide by data otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import CodeType
from typing import Any

from onnxport import compat

# A function by its file and name.
Function = tuple[str, str]


class NotScripted(BaseException):
    """A function that is told has to be scripted first: while a model is recorded, names that it uses are replaced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.function = function


class Answers:
    """``all_told`` is the answer to everybody, ``told`` are functions that hear that they are traced in any case."""

    def __init__(self) -> None:
        self.all_told = True
        self.told: set[Function] = set()
        self._untold: set[Function] = set()  # those that have asked, and have heard that they are not
        self._failed: set[Function] = set()
        self._scripted: dict[Callable[..., Any], bool] = {}  # whether those can be that are if they are traced

    def is_traced(self, asking: Sequence[CodeType], scripted: Callable[..., Any] | None) -> bool:
        """The answer to a function that asks, with its caller; or for one that is ``scripted`` if it is traced."""
        functions = [(code.co_filename, code.co_name) for code in asking]
        if (self.all_told and scripted is None) or not self.told.isdisjoint(functions):
            if scripted is not None and scripted not in self._scripted:
                raise NotScripted(scripted)
            return scripted is None or self._scripted[scripted]
        self._untold.update(functions)
        return False

    def script(self, function: Callable[..., Any]) -> None:
        self._scripted[function] = compat.scripts.can_be_scripted(function)

    def tell(self, functions: Collection[Function]) -> bool:
        """Let those of some functions that ask hear that they are traced; whether there is one that did not so far."""
        new = self._untold.intersection(functions) - self.told - self._failed
        self.told |= new
        return bool(new)

    def untell(self) -> None:
        """What functions do that are told makes the model fail."""
        self._failed |= self.told
        self.told = set()
