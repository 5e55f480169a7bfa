"""Symbolic functions for the operators of a user's library: scatter, correlation, optional arguments, loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from onnxport import symbolic_helper as sym_help
from onnxport.symbolic import jit_utils
from tests.symbolic.harness import kernel
from tests.symbolic.kinds import N_OF_X, Kind, check_kind, roll

parse_args = sym_help.parse_args
KINDS: dict[str, Kind] = {}


def _scatter_max(src: torch.Tensor, index: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.full((size,), -1, dtype=torch.int64)
    best = torch.zeros(size, dtype=src.dtype)
    for place, (value, target) in enumerate(zip(src.tolist(), index.tolist(), strict=True)):
        if found[target] < 0 or value > best[target]:
            best[target], found[target] = value, place
    return best, found


@parse_args("v", "v", "i")
def _scatter_symbolic(g: Any, src: Any, index: Any, size: int) -> Any:
    out, places = g.op("torch_scatter::scatter_max", src, index, dim_size_i=size, outputs=2)
    out.setType(src.type().with_sizes([size]))
    places.setType(index.type().with_sizes([size]))
    assert (out.type().sizes(), places.type().scalarType()) == ([size], "Long")
    return out, places


KINDS["scatter with stated types"] = Kind(
    lambda x, index: torch.ops.lab.scatter_max(x, index, 4), [torch.rand(6), torch.randint(0, 4, (6,))],
    [torch.rand(9), torch.randint(0, 4, (9,))], ["torch_scatter::scatter_max"], {"lab::scatter_max": _scatter_symbolic},
    [kernel("torch_scatter", "scatter_max", lambda s, i, dim_size: tuple(
        r.numpy() for r in _scatter_max(torch.from_numpy(np.array(s)), torch.from_numpy(np.array(i)), dim_size)))],
    {"dynamic_axes": {"x": {0: "n"}, "index": {0: "n"}}},
    [("scatter_max(Tensor src, Tensor index, int size) -> (Tensor, Tensor)", _scatter_max)],
)  # fmt: skip


def _correlation(x: torch.Tensor, y: torch.Tensor, shifts: list[int]) -> torch.Tensor:
    return torch.stack([(x * y.roll(shift, -1)).mean(1) for shift in shifts], 1)


def _correlation_symbolic(g: Any, x: Any, y: Any, shifts: Any) -> Any:
    costs = []
    for shift in sym_help._get_const(shifts, "is", "shifts"):
        moved = roll(g, y, [shift], [3]) if shift else y
        costs.append(g.op("ReduceMean", g.op("Mul", x, moved), axes_i=[1], keepdims_i=1))
    return g.op("Concat", *costs, axis_i=1)


KINDS["correlation unrolled over its shifts"] = Kind(
    lambda x, y: torch.ops.lab.correlation(x, y, [0, 1, 2]), [torch.randn(1, 3, 2, 5), torch.randn(1, 3, 2, 5)],
    [torch.randn(4, 3, 2, 5), torch.randn(4, 3, 2, 5)], ["ReduceMean", "Concat"],
    {"lab::correlation": _correlation_symbolic}, options={"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}},
    operators=[("correlation(Tensor x, Tensor y, int[] shifts) -> Tensor", _correlation)],
)  # fmt: skip


def _masked(x: torch.Tensor, mask: torch.Tensor | None, fill: float | None, dtype: torch.dtype | None) -> torch.Tensor:
    return (x if mask is None else x.masked_fill(mask, fill or 0.0)).to(dtype or x.dtype).clone()


@parse_args("v", "v", "f", "i")
def _masked_symbolic(g: Any, x: Any, mask: Any, fill: float | None, dtype: int | None) -> Any:
    if not sym_help._is_none(mask):
        x = g.op("Where", mask, sym_help._if_scalar_type_as(torch.tensor(fill or 0.0), x), x)
    return x if dtype is None else g.op("Cast", x, to_i=sym_help.scalar_type_to_onnx[dtype])


KINDS["optional arguments and a dtype"] = Kind(
    lambda x, m: torch.ops.lab.masked(x, m, -1.0, torch.float64).float() + torch.ops.lab.masked(x, None, None, None),
    [torch.randn(2, 5), torch.rand(2, 5) > 0.5], [torch.randn(2, 5), torch.rand(2, 5) > 0.5], ["Where", "Add"],
    {"lab::masked": _masked_symbolic},
    operators=[("masked(Tensor x, Tensor? mask, float? fill, ScalarType? dtype) -> Tensor", _masked)],
)  # fmt: skip


def _halve(x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    for _ in range(int(times)):
        x = x / 2
    return x.clone()


def _halve_symbolic(g: Any, x: Any, times: Any) -> Any:
    out, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", times, g.op("Constant", value_t=torch.tensor(True)), x)
    for _unused in range(2):
        jit_utils._add_input_to_block(body.block)
    carried = jit_utils._add_input_to_block(body.block)
    jit_utils._add_output_to_block(body.block, body.op("Constant", value_t=torch.tensor(True)))
    jit_utils._add_output_to_block(body.block, body.op("Div", carried, 2.0))
    return out


KINDS["a loop as often as a tensor says"] = Kind(
    lambda x, times: torch.ops.lab.halve(x, times) + 1, [torch.randn(2, 5), torch.tensor(3)],
    [torch.randn(6, 5), torch.tensor(2)],
    ["Loop"], {"lab::halve": _halve_symbolic}, options=N_OF_X,
    operators=[("halve(Tensor x, Tensor times) -> Tensor", _halve)],
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_kind(name: str) -> None:
    check_kind(KINDS[name])
