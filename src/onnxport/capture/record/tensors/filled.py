"""Tensors that are filled with the elements of others: ``torch.tensor([x.min(), x.max()])``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.arguments import instances_in, mapped

FUNCTIONS = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor})


def as_numbers(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_known: Callable[[torch.Tensor], bool]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of such a function with numbers in place of the tensors in its list, which C++ would read one by
    one; None where no tensor of the run is in it. The dtype is the one that the tensors have together."""
    index = 1 if function is torch.Tensor.new_tensor else 0
    data = args[index] if len(args) > index else kwargs.get("data", kwargs.get("obj"))
    if not isinstance(data, (list, tuple)) or not any(map(is_known, instances_in(data, torch.Tensor))):
        return None
    with compat.dispatch.unseen():
        dtype = function(*args, **kwargs).dtype
    if dtype.is_complex:
        return None
    given = (*args[:index], mapped(data, _number), *args[index + 1 :])
    rest = {name: value for name, value in kwargs.items() if name not in ("data", "obj")}
    return given, {**rest, "dtype": dtype}


def _number(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return (leaf.long() if leaf.dtype == torch.bool else leaf).item()  # a bool of Python carries nothing
