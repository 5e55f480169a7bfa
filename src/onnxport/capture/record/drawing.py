"""Random numbers: which of them are the same in each run, and those that a model draws from numpy or from Python."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from onnxport.capture.record.source_lines import IS_USERS
from onnxport.graph.ir import Source

State = tuple[Any, ...]
GeneratorReference = Callable[[], torch.Generator | None]
# Modules that run between a line of the user's and what it calls.
BETWEEN = (random.__file__, contextlib.__file__)


def state() -> State:
    """What changes when such a number is drawn: from Python's generator, and from numpy's."""
    _, keys, *rest = np.random.get_state(legacy=True)
    return random.getstate(), (np.asarray(keys).tobytes(), *rest)


@dataclass(frozen=True)
class End:
    """The state outside of torch before a run and after it, and the generators of torch's that it drew from."""

    before: State
    after: State
    generators: Sequence[GeneratorReference]

    def draws_as(self, other: End) -> bool:
        """Whether all that was drawn outside of torch is the same in another run, from other states."""
        parts = zip(self.before, self.after, other.after, strict=True)
        return all(mine == theirs for before, mine, theirs in parts if before != mine)


@contextlib.contextmanager
def elsewhere(generators: Sequence[GeneratorReference]) -> Iterator[None]:
    """A run from other states of all generators, these among them. Who runs the model puts back that of torch."""
    held = [generator for reference in generators if (generator := reference()) is not None]
    states = [generator.get_state() for generator in held]
    outside = random.getstate(), np.random.get_state()
    try:
        for generator in (torch.default_generator, *held):
            generator.manual_seed(int(generator.get_state().sum()) + generator.initial_seed() % 2**31 + 1)
        np.random.rand()
        random.random()
        yield
    finally:
        for generator, given in zip(held, states, strict=True):
            generator.set_state(given)
        random.setstate(outside[0])
        np.random.set_state(outside[1])


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
