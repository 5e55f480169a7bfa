"""What reaches the user when something is raised: the model's own errors as they are, mistakes of ours as such."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from onnxport.lower.walk import Lowering


class Own(Exception):
    pass


def raises(error: Exception) -> Any:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.dim():
            raise error
        return y

    return model


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "error", [KeyError("k"), Own("own"), OSError("no file"), RecursionError(), ZeroDivisionError()]
)
def test_what_the_model_raises_is_passed_on(error: Exception, axes: Any) -> None:
    with pytest.raises(type(error)) as found:
        onnxport.export(raises(error), torch.randn(3, 4), input_names=["x"], dynamic_axes=axes)
    assert found.value is error
    assert any(frame.name == "model" for frame in traceback.extract_tb(found.value.__traceback__))


def test_what_torch_raises_in_the_model_is_passed_on() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        onnxport.export(lambda x: x @ x, torch.randn(3, 4))


def test_what_a_writer_raises_is_passed_on() -> None:
    class Full:
        def write(self, data: bytes) -> int:
            raise Own("full")

    with pytest.raises(Own, match="full"):
        onnxport.export(nn.ReLU(), torch.randn(3), Full())


def test_a_mistake_of_ours_names_the_line_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = Lowering.lower

    def broken(self: Lowering, node: Any) -> None:
        if node.op == "aten::sin":
            raise KeyError("lost")
        lower(self, node)

    monkeypatch.setattr(Lowering, "lower", broken)
    monkeypatch.setattr("onnxport.program.internal_errors._is_users", lambda frame: False)  # this file breaks it
    with pytest.raises(
        onnxport.InternalError, match=r"test_errors\.py:\d+, in \S+: a bug in onnxport .*report"
    ) as found:
        onnxport.export(lambda x: x.sin() + 1, torch.randn(3))
    assert isinstance(found.value, onnxport.ExportError) and isinstance(found.value.__cause__, KeyError)


def test_attention_lies_in_memory_as_the_caller_has_it() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x)[0].view(-1)  # type: ignore[no-any-return]

    model, x = Attention().eval(), torch.randn(4, 5, 8)
    with torch.no_grad():
        program = onnxport.export(model, torch.randn(2, 3, 8), input_names=["x"], dynamic_axes={"x": {0: "n", 1: "m"}})
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
