"""Random numbers that a model draws from numpy or from Python: they are constants of the record."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from onnxport.capture.record.source_lines import IS_USERS
from onnxport.graph.ir import Source

State = tuple[Any, ...]
# Modules that run between a line of the user's and what it calls.
BETWEEN = (random.__file__, contextlib.__file__)


def state() -> State:
    """What changes when such a number is drawn."""
    _, keys, *rest = np.random.get_state(legacy=True)
    return random.getstate(), np.asarray(keys).tobytes(), *rest


def message(call: Callable[[], Any]) -> str:
    """What to tell of a model that draws such numbers when it is called, with the line that does."""
    return (
        f"{_drawing_line(call) or 'the model'}: a random number is drawn from numpy or from Python's random; the one "
        "that was drawn while the model was recorded is frozen into the exported graph. Draw it with torch "
        "(torch.rand), which the file does anew each time it runs, or make it an input."
    )


def _drawing_line(call: Callable[[], Any]) -> Source | None:
    """The first line of the user's after which the state is another, found by running line by line."""
    before = state()
    running: list[Source] = []
    found: list[Source] = []

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if found or not IS_USERS[code.co_filename] or code.co_filename in BETWEEN:
            return None
        if running and state() != before:
            found.append(running[-1])
        running.append(Source(code.co_filename, frame.f_lineno, code.co_name))
        return watch

    outer = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(outer)
    return found[0] if found else None
