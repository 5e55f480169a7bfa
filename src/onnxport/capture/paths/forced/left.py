"""Conditions on data that stay decided, and why."""

from __future__ import annotations

from dataclasses import dataclass

from onnxport.capture.record.source_lines import instruction
from onnxport.errors import CaptureError
from onnxport.graph.ir import Source


class TooManyRuns(CaptureError):
    """Conditions on sizes that data decide take more runs of the model than are made."""


@dataclass(frozen=True)
class Left:
    """A condition that stays as the example decides it.

    ``reason`` says why. Where the other side ``refuses``, the model itself raises an error there, as an assertion does:
    then it takes no data for which the condition has the other ``outcome``.
    """

    source: Source | None
    outcome: bool
    reason: str
    refuses: bool = False

    @property
    def note(self) -> str:
        return f"{self.source or 'the model'}: where this condition is {self.outcome}, {self.reason}; the file does not"


def raised(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"the model raises {type(error).__name__}" + (f": {text}" if text else "")


def raises_itself(error: BaseException) -> bool:
    """Whether Python code raises an error, by ``raise`` or ``assert``, and not torch on what it is given."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and instruction(trace.tb_frame.f_code, trace.tb_lasti) == "RAISE_VARARGS"
