"""What is asked about a sample, and what is found."""

from __future__ import annotations

from dataclasses import dataclass

OPSET = 20


@dataclass(frozen=True)
class Task:
    """A sample of an operator, by its number."""

    operator: str
    dtype: str
    index: int
    opset: int = OPSET


@dataclass(frozen=True)
class Verdict:
    """``kind`` is "pass", or the name of what went wrong; "void" where there is no such sample or torch refuses it."""

    kind: str
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.kind == "pass"


PASS = Verdict("pass")
VOID = Verdict("void")
