"""What the values of a trace come from: the content of an input, sizes alone, or constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport import compat


class Origins:
    """Knows it of each value asked for. ``parameters`` are the inputs of the trace that are the model's own."""

    def __init__(self, parameters: set[int]) -> None:
        self._parameters = parameters
        self._known: dict[int, bool | None] = {}

    def is_content(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor comes from what an input holds."""
        value = compat.traced_value(tensor)
        return value is not None and self.of(value) is True

    def of(self, value: Any) -> bool | None:
        """True if the value comes from what an input holds, False if from its sizes only, None for a constant."""
        pending = [value]
        while pending:
            current = pending[-1]
            key = current.unique()
            given = _inputs(current)
            missing = [entry for entry in given if entry.unique() not in self._known]
            if key not in self._known and not missing:
                found = [self._known[entry.unique()] for entry in given]
                self._known[key] = _joined(current, found, key in self._parameters)
            pending.extend(missing)
            if key in self._known:
                pending.pop()
        return self._known[value.unique()]


def _inputs(value: Any) -> list[Any]:
    node = value.node()
    return [] if node.kind() in ("aten::size", "prim::Param", "prim::Constant") else list(node.inputs())


def _joined(value: Any, found: Sequence[bool | None], is_parameter: bool) -> bool | None:
    kind = value.node().kind()
    if kind == "aten::size":
        return False
    if kind == "prim::Param":
        return None if is_parameter else True
    return True if True in found else False if False in found else None
