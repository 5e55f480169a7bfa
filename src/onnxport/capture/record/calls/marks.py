"""The marks between which the blocks of a record stand."""

from __future__ import annotations

import enum


class Mark(enum.Enum):
    """Where a block begins or ends in a record."""

    IF = "if"
    ELSE = "else"
    END_IF = "end of if"
    LOOP = "loop"
    END_LOOP = "end of loop"
    FUNCTION = "function"
