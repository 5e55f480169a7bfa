"""The marks between which the blocks of a record stand."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any


class Mark(enum.Enum):
    """Where a block begins or ends in a record."""

    IF = "if"
    ELSE = "else"
    END_IF = "end of if"
    LOOP = "loop"
    END_LOOP = "end of loop"
    FUNCTION = "function"


OPENING = frozenset({Mark.IF, Mark.LOOP, Mark.FUNCTION})
CLOSING = frozenset({Mark.END_IF, Mark.END_LOOP})


def closes(op: Any) -> bool:
    """Whether a call ends a block; the call of an autograd Function ends the block of what it did."""
    return op in CLOSING if isinstance(op, Mark) else type(op).__name__ == "FunctionCall"


def are_whole(ops: Iterable[Any]) -> bool:
    """Whether every block that is begun by these calls is ended by them, and no other."""
    depth = 0
    for op in ops:
        depth -= closes(op)
        if depth < 0 or (op is Mark.ELSE and depth == 0):
            return False
        depth += op in OPENING if isinstance(op, Mark) else 0
    return depth == 0
