from __future__ import annotations

import collections
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport


def repeated(x: Tensor, copies: int) -> Tensor:
    """As decoders with grouped heads have it."""
    batch, groups, length, width = x.shape
    x = x[:, :, None, :, :].expand(batch, groups, copies, length, width)
    return x.reshape(batch, groups * copies, length, width)


class Eager(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = q @ repeated(k, 3).transpose(2, 3) / 2 + mask
        return torch.softmax(scores, -1) @ repeated(v, 3)


class Fused(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, repeated(k, 3), repeated(v, 3), mask)


class Tiled(nn.Module):
    """The heads one after the other, several times: another order."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        k, v = k.repeat(1, 3, 1, 1), v.repeat(1, 3, 1, 1)
        return torch.softmax(q @ k.transpose(2, 3) + mask, -1) @ v


def inputs(batch: int, rows: int, columns: int) -> tuple[Tensor, ...]:
    return (
        torch.randn(batch, 6, rows, 4),
        torch.randn(batch, 2, columns, 4),
        torch.randn(batch, 2, columns, 5),
        torch.randn(batch, 1, rows, columns),
    )


def exported(model: nn.Module, opset: int, dynamic: bool = True, **options: Any) -> Any:
    heads, keys = {0: "batch", 2: "rows"}, {0: "batch", 2: "columns"}
    axes = {"q": heads, "k": keys, "v": keys, "mask": {0: "batch", 2: "rows", 3: "columns"}}
    return onnxport.export(
        model, inputs(2, 5, 7), input_names=list(axes), dynamic_axes=axes if dynamic else None, opset_version=opset,
        **options,
    )  # fmt: skip


def operators(program: Any) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in program.model_proto.graph.node)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("opset", [12, 20, 22])
@pytest.mark.parametrize("model", [Eager(), Fused()], ids=["eager", "fused"])
def test_nothing_is_repeated(model: nn.Module, opset: int, dynamic: bool) -> None:
    program = exported(model, opset, dynamic)
    found = operators(program)
    assert found["Expand"] == found["Unsqueeze"] == 0 and found["MatMul"] == 2
    run(program, model, [(3, 1, 9), (1, 8, 2)] if dynamic else [(2, 5, 7)])


def run(program: Any, model: nn.Module, sizes: list[tuple[int, ...]]) -> None:
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for size in sizes:
        given = inputs(*size)
        feeds = {name: x.numpy() for name, x in zip(("q", "k", "v", "mask"), given, strict=True)}
        (result,) = session.run(None, feeds)
        expected = model(*given).numpy()
        assert result.shape == expected.shape and result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_another_order_of_heads_stays() -> None:
    program = exported(Tiled(), 20)
    run(program, Tiled(), [(3, 1, 9), (1, 8, 2)])


def test_the_pass_can_be_left_out() -> None:
    assert operators(exported(Eager(), 20, skip_passes=["ShareHeads"]))["Expand"] == 2
