"""Bools where an operator takes a number."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch

import onnxport
from onnxport.verification.runtime import Session

CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eq": lambda mask: mask == True,  # noqa: E712
    "ne": lambda mask: mask.ne(False),
    "full": lambda mask: torch.full((4,), True) & mask,
    "full_dtype": lambda mask: torch.full((4,), True, dtype=torch.float32) * mask,
    "full_like": lambda mask: torch.full_like(mask, True) & mask,
    "new_full": lambda mask: mask.new_full((4,), False) | mask,
    "masked_fill": lambda mask: mask.masked_fill(mask, value=False),
    "fill": lambda mask: mask.clone().fill_(True) & mask,
    "fill_new": lambda mask: torch.fill(mask, True) & mask,
    "fill_number": lambda mask: torch.fill(mask.float(), 3) * mask,
    "fill_tensor": lambda mask: torch.fill(mask.float(), mask.sum()) * mask,
    "index_add": lambda mask: mask.index_add(0, torch.tensor([1]), mask[:1], alpha=True),
    "where": lambda mask: torch.where(mask, mask, False),
    "scatter": lambda mask: mask.scatter(0, torch.tensor([1]), True),
    "index_fill": lambda mask: mask.index_fill(0, torch.tensor([1]), True),
    "and": lambda mask: mask & True,
    "power": lambda mask: True ** mask.float(),
    "clamp": lambda mask: mask.int().clamp(max=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_bool_as_number(name: str) -> None:
    mask = torch.tensor([True, False, True, False])
    target = io.BytesIO()
    onnxport.export(CALLS[name], (mask,), target, input_names=["mask"])
    (actual,) = Session(target.getvalue()).run({"mask": mask})
    torch.testing.assert_close(actual, CALLS[name](mask))
