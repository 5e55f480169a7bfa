"""What stands in the brackets of ``x[...]``."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import torch

from onnxport.capture.record.numbers.carriers import CARRIERS, carried

# A whole number in a tensor chooses one index; of these types it does not.
MASKS = (torch.bool, torch.uint8)


def _parts(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


def has_slice(index: Any) -> bool:
    """Whether a bound of a slice is a number that is known now."""
    return any(type(part) is slice and (type(part.start) is int or type(part.stop) is int) for part in _parts(index))


def with_bounds(index: Any) -> Any:
    """The index, with the ends of its slices as symbolic numbers."""
    if type(index) is tuple:
        return tuple(with_bounds(part) for part in index)
    if type(index) is not slice or type(index.stop) is not int or index.stop < 0:
        return index
    return slice(index.start, carried(index.stop, "constant"), index.step)


def is_view(index: Any) -> bool:
    """Whether the index takes a part of the tensor's own memory."""
    return all(_takes_view(part) for part in _parts(index))


def _takes_view(part: Any) -> bool:
    if isinstance(part, torch.Tensor):
        return part.dim() == 0 and part.dtype not in MASKS and not part.is_floating_point()
    return part is None or type(part) in (int, slice, EllipsisType, *CARRIERS)
