"""What stands in the brackets of ``x[...]``."""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any

import torch

from onnxport.capture.record.numbers.carriers import CARRIERS, carried

# A whole number in a tensor chooses one index; of these types it does not.
MASKS = (torch.bool, torch.uint8)
# What Python takes for the bound of a slice, where it has one element.
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _parts(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


def with_bounds(index: Any) -> Any:
    """The index, with the ends of its slices as symbolic numbers."""
    if type(index) is tuple:
        return tuple(with_bounds(part) for part in index)
    if type(index) is not slice or type(index.stop) is not int or index.stop < 0:
        return index
    return slice(index.start, carried(index.stop, "constant"), index.step)


def with_read_bounds(index: Any, read: Callable[[torch.Tensor], Any]) -> Any:
    """The index, with the bounds and steps of its slices that are tensors as the numbers that are read of them."""
    if type(index) is tuple:
        return tuple(with_read_bounds(part, read) for part in index)
    if type(index) is not slice:
        return index
    return slice(*(read(bound) if _is_number(bound) else bound for bound in (index.start, index.stop, index.step)))


def _is_number(bound: Any) -> bool:
    return isinstance(bound, torch.Tensor) and bound.numel() == 1 and bound.dtype in INTEGERS


def is_view(index: Any) -> bool:
    """Whether the index takes a part of the tensor's own memory."""
    return all(_takes_view(part) for part in _parts(index))


def _takes_view(part: Any) -> bool:
    if isinstance(part, torch.Tensor):
        return part.dim() == 0 and part.dtype not in MASKS and not part.is_floating_point()
    return part is None or type(part) in (int, slice, EllipsisType, *CARRIERS)
