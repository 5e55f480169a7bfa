"""What the values of a trace come from: the content of an input, sizes alone, or constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from onnxport import compat
from onnxport.graph.data_sizes import COUNTING_OPERATORS

Found = TypeVar("Found")

# Operators whose result has the shape of their first argument, whatever the others are.
KEEP_SHAPE = tuple(f"aten::{name}" for name in ("index_", "scatter", "masked_scatter", "masked_fill", "put", "copy"))


class Origins:
    """Knows it of each value asked for. ``parameters`` are the inputs of the trace that are the model's own."""

    def __init__(self, parameters: set[int]) -> None:
        self._parameters = parameters
        self._contents: dict[int, bool | None] = {}
        self._shapes: dict[int, bool] = {}

    def is_content(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor comes from what an input holds."""
        value = compat.traced_value(tensor)
        return value is not None and self.of(value) is True

    def of(self, value: Any) -> bool | None:
        """True if the value comes from what an input holds, False if from its sizes only, None for a constant.

        The size of what was counted, as of the places where a mask holds, comes from what an input holds.
        """
        return _followed(value, self._contents, _inputs, self._content)

    def _content(self, value: Any, found: Sequence[bool | None]) -> bool | None:
        node = value.node()
        kind = node.kind()
        if kind == "aten::size":
            return _followed(node.inputsAt(0), self._shapes, _shaping_inputs, _has_counted_shape)
        if kind == "prim::Param":
            return None if value.unique() in self._parameters else True
        return True if True in found else False if False in found else None


def _followed(
    value: Any,
    known: dict[int, Found],
    inputs: Callable[[Any], list[Any]],
    joined: Callable[[Any, Sequence[Found]], Found],
) -> Found:
    """What is known of a value, by way of what it is made from; not by recursion, since traces are long."""
    pending = [value]
    while pending:
        current = pending[-1]
        key = current.unique()
        given = [] if key in known else inputs(current)
        missing = [entry for entry in given if entry.unique() not in known]
        if key not in known and not missing:
            known[key] = joined(current, [known[entry.unique()] for entry in given])
        pending.extend(missing)
        if key in known:
            pending.pop()
    return known[value.unique()]


def _inputs(value: Any) -> list[Any]:
    node = value.node()
    return [] if node.kind() in ("aten::size", "prim::Param", "prim::Constant") else _given(node, value)


def _given(node: Any, value: Any) -> list[Any]:
    """What a node is given; for a result of a branch or a loop, what its blocks give as well."""
    given = list(node.inputs())
    if node.kind() in ("prim::If", "prim::Loop"):
        place = next(i for i, output in enumerate(node.outputs()) if output.unique() == value.unique())
        place += node.kind() == "prim::Loop"  # which gives first whether it goes on
        given += [list(block.outputs())[place] for block in node.blocks()]
    return given


def _shaping_inputs(value: Any) -> list[Any]:
    """The values that the shape of this one may follow from."""
    node = value.node()
    kind = node.kind()
    if kind in ("prim::Param", "prim::Constant") or kind in COUNTING_OPERATORS or _rank(value) == 0:
        return []
    given = _given(node, value)
    return given[:1] if kind.endswith("_") or kind.startswith(KEEP_SHAPE) else given


def _has_counted_shape(value: Any, found: Sequence[bool]) -> bool:
    node = value.node()
    if node.kind() in COUNTING_OPERATORS or any(found):
        return True
    return node.kind() == "aten::index" and any(map(_is_mask, node.inputsAt(1).node().inputs()))


def _is_mask(value: Any) -> bool:
    kind = value.type()
    return kind.kind() == "TensorType" and kind.dtype() in (torch.bool, torch.uint8)


def _rank(value: Any) -> int | None:
    kind = value.type()
    sizes = kind.sizes() if kind.kind() == "TensorType" else None
    return None if sizes is None else len(sizes)
