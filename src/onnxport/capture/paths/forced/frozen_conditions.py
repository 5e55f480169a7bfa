"""Conditions on data that stay frozen, and why."""

from __future__ import annotations

from dataclasses import dataclass

from onnxport.capture.record.source_lines import instruction
from onnxport.errors import CaptureError
from onnxport.graph.ir import Source


class TooManyRuns(CaptureError):
    """Conditions on data-dependent sizes would take too many runs of the model."""


@dataclass(frozen=True)
class FrozenCondition:
    """A condition that stays as the example decides it; ``reason`` says why.

    If the model ``refuses`` the other ``outcome``, it raises an error itself there, as an assertion does: then it
    accepts no data with that outcome. ``unexplored``: there are more paths than are followed.
    """

    source: Source | None
    outcome: bool
    reason: str
    refuses: bool = False
    unexplored: bool = False

    @property
    def note(self) -> str:
        return f"{self.source or 'the model'}: where this condition is {self.outcome}, {self.reason}; the file does not"


def raised(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"the model raises {type(error).__name__}" + (f": {text}" if text else "")


def raises_itself(error: BaseException) -> bool:
    """Whether an error comes from ``raise`` or ``assert`` in Python code, and not from torch."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and instruction(trace.tb_frame.f_code, trace.tb_lasti) == "RAISE_VARARGS"
