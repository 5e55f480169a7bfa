"""What torch's tracer is about, and what it knows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

# What the tracer is about in this thread; it looks away while that is None.
tracing_state: Callable[[], Any] = torch._C._get_tracing_state
set_tracing_state: Callable[[Any], None] = torch._C._set_tracing_state  # type: ignore[attr-defined]


def is_tracing() -> bool:
    return bool(torch._C._is_tracing())


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """What is done here is not part of the trace."""
    state = tracing_state()
    set_tracing_state(None)
    try:
        yield
    finally:
        set_tracing_state(state)


def traced_value(tensor: torch.Tensor) -> Any:
    """The tracer's value for a tensor; None for one that the trace has not seen."""
    state = tracing_state()
    try:
        return torch._C._get_value_trace(tensor)  # type: ignore[attr-defined]
    except RuntimeError:
        set_tracing_state(state)  # an error ends the trace
        return None


def traced_graph() -> Any:
    """The graph that the tracer is writing now; None if it is not tracing."""
    state = tracing_state()
    return None if state is None else state.graph()
