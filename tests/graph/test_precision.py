"""Rounding on the way counts: a float32 that was a bfloat16 before is compared as one."""

from __future__ import annotations

import torch

from onnxport.graph.precision import roundings
from onnxport.verification.compare import compare
from tests.graph.captured import captured


def test_the_coarsest_dtype_on_the_way_is_known() -> None:
    def mixed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x.bfloat16().float() + 1, x + 1, x.double()

    block = captured(mixed, torch.ones(2)).block
    found = roundings(block)
    assert [found[value] for value in block.outputs] == [torch.bfloat16, torch.float32, torch.float32]


def test_a_result_may_differ_by_the_rounding_on_its_way() -> None:
    expected, actual = torch.tensor([2.0]), torch.tensor([2.0078125])
    assert compare(expected, actual).problem is not None
    assert compare(expected, actual, rounding=torch.bfloat16).problem is None
