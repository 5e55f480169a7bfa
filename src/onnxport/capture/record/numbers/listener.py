"""Who hears, in a thread, what Python and C++ do with the numbers of a recorded run."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Protocol

from onnxport.capture.record.record import Number


class Listener(Protocol):
    """The recorder of the thread, as numbers know it."""

    def note_condition(self, op: str, left: Any, right: Any, outcome: bool) -> bool: ...

    def note_loss(self, how: str, number: Number, keys: tuple[int, ...] = ()) -> None: ...

    def note_asked(self, number: Number) -> None: ...

    def note_iteration(self, index: Number, length: Any) -> bool: ...

    def follows_data(self, *numbers: Any) -> bool: ...


class _State(threading.local):
    listener: Listener | None = None
    given: list[weakref.ref[Any]] | None = None  # the numbers that Python was given
    hashed: tuple[int, int] = 0, 0  # the frame and instruction that hashed one last
    counts = False  # some of them are indices of iterations


STATE = _State()
