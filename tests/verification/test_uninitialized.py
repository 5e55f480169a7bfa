"""Memory that a model takes as it is: what it writes over all of is compared, what it reads as it was is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.verification.faults import put_in


def halves(x: Tensor) -> Tensor:
    joined = x.new_empty(x.shape[0], 2 * x.shape[1])
    joined[:, : x.shape[1]] = x.sin()
    joined[:, x.shape[1] :] = x.cos()
    return joined


def inverse(x: Tensor) -> Tensor:
    order = x.argsort(-1)
    back = torch.empty_like(order)
    back.scatter_(-1, order, torch.arange(x.shape[-1]).expand_as(order))
    return x.sin().gather(-1, back)


def half(x: Tensor) -> Tensor:
    joined = x.new_empty(x.shape[0], 2 * x.shape[1])
    joined[:, : x.shape[1]] = x.sin()
    return joined


@pytest.mark.parametrize("model", [halves, inverse])
def test_what_is_written_over_is_compared(model, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 5)
    onnxport.export(model, x, dynamic_axes={"x": {0: "batch", 1: "length"}})
    put_in(monkeypatch, "aten::sin", lambda g, result: g.op("Neg", result))
    with pytest.raises(onnxport.VerificationError, match="aten::sin"):
        onnxport.export(model, x, dynamic_axes={"x": {0: "batch", 1: "length"}})


def test_what_is_read_as_it_was_is_not_compared() -> None:
    x = torch.randn(2, 5)
    program = onnxport.export(half, x, dynamic_axes={"x": {0: "batch"}})
    torch.testing.assert_close(program(x)[:, :5], x.sin())
