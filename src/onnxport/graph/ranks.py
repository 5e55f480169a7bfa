"""Tensors of another number of dimensions in each branch."""

from __future__ import annotations

from onnxport.graph.ir import ScalarType, SequenceType, TensorType, Type, UnrankedType


def unranked_type(left: Type, right: Type) -> UnrankedType | None:
    """The type of an output that is one tensor in one branch and another in the other, if their ranks differ."""
    if not all(isinstance(type, (TensorType, UnrankedType)) for type in (left, right)):
        return None
    assert not isinstance(left, (ScalarType, SequenceType)) and not isinstance(right, (ScalarType, SequenceType))
    differ = isinstance(left, UnrankedType) or isinstance(right, UnrankedType) or len(left.shape) != len(right.shape)
    if left.dtype != right.dtype or left.dtype.is_complex or not differ:
        return None
    longer, shorter = sorted((left.shape, right.shape), key=len, reverse=True)
    if len(longer) > len(shorter):
        return UnrankedType(left.dtype, longer)
    return UnrankedType(left.dtype, tuple(a if a == b else None for a, b in zip(longer, shorter, strict=True)))
