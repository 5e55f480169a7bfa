"""Tensors of another number of dimensions in each branch."""

from __future__ import annotations

from onnxport.graph.ir import ScalarType, SequenceType, TensorType, Type, UnrankedType


def unranked_type(left: Type, right: Type) -> UnrankedType | None:
    """The type of an output that is one tensor in one branch and another in the other, if their ranks differ."""
    if not all(isinstance(type, (TensorType, UnrankedType)) for type in (left, right)):
        return None
    assert not isinstance(left, (ScalarType, SequenceType)) and not isinstance(right, (ScalarType, SequenceType))
    ranks = [len(type.shape) if isinstance(type, TensorType) else None for type in (left, right)]
    if left.dtype != right.dtype or left.dtype.is_complex or (ranks[0] == ranks[1] and ranks[0] is not None):
        return None
    return UnrankedType(left.dtype)
