"""The types of values in the captured graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from onnxport.graph.sizes import Shape


@dataclass(frozen=True, slots=True)
class TensorType:
    dtype: torch.dtype
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A Python number that is only known at run time."""

    kind: type[bool] | type[int] | type[float]


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A list of tensors of a length that is only known at run time; ``element`` is the common type of its elements."""

    element: TensorType


@dataclass(frozen=True, slots=True)
class UnrankedType:
    """A tensor that has one number of dimensions in one branch and another in the other: an output of the graph."""

    dtype: torch.dtype


Type: TypeAlias = TensorType | ScalarType | SequenceType | UnrankedType


def unranked_type(left: Type, right: Type) -> UnrankedType | None:
    """The type of an output that is one tensor in one branch and another in the other, if their ranks differ."""
    if not all(isinstance(type, (TensorType, UnrankedType)) for type in (left, right)):
        return None
    assert not isinstance(left, (ScalarType, SequenceType)) and not isinstance(right, (ScalarType, SequenceType))
    ranks = [len(type.shape) if isinstance(type, TensorType) else None for type in (left, right)]
    if left.dtype != right.dtype or left.dtype.is_complex or (ranks[0] == ranks[1] and ranks[0] is not None):
        return None
    return UnrankedType(left.dtype)
