"""What the Python functions of torch.nn.functional call, which a mode that takes their calls does not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from onnxport import compat

TENSORS = (torch.Tensor, nn.Parameter)
PLAIN = (int, float, bool, str, type(None))
LISTS = (list, tuple, torch.Size)
# What a list of such elements is called in the schemas of operators.
ELEMENTS = {int: "List[int]", float: "List[float]", torch.Tensor: "List[Tensor]", nn.Parameter: "List[Tensor]"}
# What is asked of a tensor without leaving a trace.
QUIET = frozenset({"dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous"})
UNKNOWN = object()


class Inside(TorchFunctionMode):
    """Takes the calls that such a function makes."""

    def __init__(self, call: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._call(function, args, kwargs or {})


def is_open(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call is of such a function, with no argument of a class that may have its own ways."""
    if not compat.functional.is_python(function):
        return False
    return all(kind_of(argument) is not UNKNOWN for argument in (*args, *kwargs.values()))


def kind_of(argument: Any) -> Any:
    """The type of a plain argument, or the type's name in schemas for a list; UNKNOWN for anything else.

    Among what is unknown are sizes, which are tensors or numbers of a kind of their own while a model is traced.
    """
    kind = type(argument)
    if kind in PLAIN:
        return kind
    if kind in TENSORS:
        return torch.Tensor
    if kind not in LISTS:
        return UNKNOWN
    kinds = {ELEMENTS.get(type(element), UNKNOWN) for element in argument}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN
