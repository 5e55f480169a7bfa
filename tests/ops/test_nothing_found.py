"""Reductions over what a mask leaves, which may be nothing: NaN as in torch, though ReduceMean leaves that open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

import onnxport

REDUCED: dict[str, Callable[[torch.Tensor], Any]] = {
    "mean": lambda x: x[x > 0].mean(),
    "mean_of_rows": lambda x: x[x[:, 0] > 0].mean(0, keepdim=True),
    "mean_of_half": lambda x: x[x > 0].half().mean(),
    "mean_of_joined": lambda x: torch.cat([x[x > 0], x[x > 3]]).mean(),
    "mean_of_part": lambda x: x[x > 0][1:].mean(),
    "mean_of_flat_rows": lambda x: x[x[:, 0] > 0].flatten().mean(),
    "variance": lambda x: (x[x > 0].var(), x[x > 0].var(correction=0), x[x > 0].std(correction=2)),
    "deviation_and_mean": lambda x: torch.std_mean(x[x > 0]),
    "loss": lambda x: nnf.mse_loss(x[x > 0], x[x > 0] * 2),
}
NONE, ONE, ALL = -torch.ones(5, 3), -torch.ones(5, 3), torch.rand(5, 3) + 0.1
ONE[2, 0] = 0.5


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", REDUCED)
def test_of_what_a_mask_leaves(name: str, dynamic: bool) -> None:
    example = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    program = onnxport.export(REDUCED[name], example, dynamic_axes={"x": {0: "n"}} if dynamic else None)
    for x in (NONE, ONE, ALL, torch.cat([ALL, NONE]) if dynamic else ALL):
        torch.testing.assert_close(program(x), REDUCED[name](x), equal_nan=True)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_a_variance_of_fewer_elements_than_its_correction() -> None:
    program = onnxport.export(lambda x: x.var(0, correction=3), torch.randn(6, 2), dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 3, 9):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program(x), x.var(0, correction=3), equal_nan=True)


def test_a_mean_over_an_axis_of_the_input_is_one_node() -> None:
    program = onnxport.export(lambda x: x[x[:, 0] > 0].mean(1), torch.randn(6, 2), dynamic_axes={"x": {0: "n"}})
    assert "ReduceSum" not in {node.op_type for node in program.model.graph}
