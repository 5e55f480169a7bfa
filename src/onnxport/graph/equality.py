"""Comparison of results: exactly, or up to rounding errors."""

from __future__ import annotations

from typing import Any

import torch


def is_same(left: Any, right: Any) -> bool:
    """Whether two tensors have the same dtype, shape and content; NaN equals NaN."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return False
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and torch.allclose(left, right, rtol=0, atol=0, equal_nan=True)
    )


def is_close(left: Any, right: Any) -> bool:
    """Whether two results, tensors or lists of them, are equal up to rounding errors."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_close, left, right))
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return left is right
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    exact = not (left.is_floating_point() or left.is_complex())
    return torch.equal(left, right) if exact else torch.allclose(left, right, rtol=1e-3, atol=1e-4, equal_nan=True)
