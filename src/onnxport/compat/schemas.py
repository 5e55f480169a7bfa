"""The schemas of operators, as torch has them registered."""

from __future__ import annotations

from typing import Any

import torch


def registered(op: str) -> list[Any]:
    """The schemas of all overloads of ``aten::add`` and its like; none for an operator that is not known."""
    found: list[Any] = torch._C._jit_get_schemas_for_operator(op)
    return found


def of_overload(op: str, overload: str) -> Any:
    """The schema of one overload; None for an operator that is not known."""
    try:
        return torch._C._get_schema(op, overload)
    except RuntimeError:
        return None
