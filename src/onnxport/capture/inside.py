"""What the Python functions of torch.nn.functional call, and the kinds of their arguments."""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch
from torch import nn

from onnxport import compat

TENSORS = (torch.Tensor, nn.Parameter)
PLAIN = (int, float, bool, str, type(None))
# The kinds of arguments that are told by their types alone.
KINDS: dict[type, type] = {kind: kind for kind in PLAIN} | dict.fromkeys(TENSORS, torch.Tensor)
LISTS = (list, tuple, torch.Size)
# What a list of such elements is called in the schemas of operators.
ELEMENTS = {int: "List[int]", float: "List[float]", torch.Tensor: "List[Tensor]", nn.Parameter: "List[Tensor]"}
# What is asked of a tensor without leaving a trace.
QUIET = frozenset({"dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous"})
UNKNOWN = object()
HANDS_OVER = torch.overrides.handle_torch_function.__code__


def is_inside(frame: FrameType | None) -> bool:
    """Whether such a function made the call in a frame, by itself or by way of others of torch's.

    One that hands over its own call, because it was asked for, is not inside of itself.
    """
    if frame is not None and frame.f_code is HANDS_OVER and frame.f_back is not None:
        frame = frame.f_back.f_back
    while frame is not None and frame.f_code.co_filename.startswith(compat.TORCH_FOLDER):
        if frame.f_code.co_filename == compat.functional.FILE:
            return True
        frame = frame.f_back
    return False


def is_plain(argument: Any) -> bool:
    """Whether an argument is of no class that may have its own ways."""
    return kind_of(argument) is not UNKNOWN


def kind_of(argument: Any) -> Any:
    """The type of a plain argument, or the type's name in schemas for a list; UNKNOWN for anything else.

    Among what is unknown are sizes, which are tensors or numbers of a kind of their own while a model is traced.
    """
    kind = type(argument)
    if kind in KINDS:
        return KINDS[kind]
    if kind not in LISTS:
        return UNKNOWN
    kinds = {ELEMENTS.get(type(element), UNKNOWN) for element in argument}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN
