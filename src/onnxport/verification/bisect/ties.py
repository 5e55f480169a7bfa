"""Choices among equal elements, of which torch does not say which one comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxport.graph.ir import Node

# Of max, min, argmax and argmin, and of a stable sort, torch says it: the first.
OPEN_ORDER = frozenset(
    f"aten::{name}" for name in ("topk", "sort", "argsort", "msort", "kthvalue", "median", "nanmedian", "mode")
)


def is_open_choice(
    node: Node, arguments: Mapping[str, Any], expected: Sequence[Any], actual: Sequence[torch.Tensor | None]
) -> bool:
    """Whether the results of an operator differ in the indices of equal elements only, each of which is there once."""
    given = arguments.get("self")
    if node.op not in OPEN_ORDER or arguments.get("stable") is True or not isinstance(given, torch.Tensor):
        return False
    dim = arguments.get("dim", -1)
    return bool(given.dim()) and all(
        got is None or _is_same(given, dim, want, got) for want, got in zip(expected, actual, strict=True)
    )


def _is_same(given: torch.Tensor, dim: Any, want: torch.Tensor, got: torch.Tensor) -> bool:
    if want.shape != got.shape or want.dtype != got.dtype:
        return False
    if want.dtype is not torch.int64 or (given.dtype is torch.int64 and torch.equal(want, got)):
        return torch.allclose(want, got, rtol=0, atol=0, equal_nan=True)
    if not isinstance(dim, int) or not bool(((got >= 0) & (got < given.shape[dim])).all()):
        return False
    kept = want.dim() == given.dim()
    places = [index if kept else index.unsqueeze(dim) for index in (want, got)]
    chosen = [given.gather(dim, index) for index in places]
    rows = places[1].sort(dim).values
    once = bool((rows.diff(dim=dim) != 0).all())
    return once and torch.allclose(chosen[0], chosen[1], rtol=0, atol=0, equal_nan=True)
