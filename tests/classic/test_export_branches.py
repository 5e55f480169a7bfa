"""Models that ask whether they are being exported are exported as what they compute then."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch import nn

import onnxport
from tests.classic.running import exported, run, same

X = torch.randn(2, 3)
AXES = {"x": {0: "n"}}


class Logits(nn.Module):
    """Gives raw numbers to exporters, and probabilities with a sum to people."""

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        if torch.onnx.is_in_onnx_export():
            return x * 2
        return x.sigmoid(), x.sum()


def test_fewer_outputs() -> None:
    with pytest.warns(onnxport.TraceWarning, match="1 results then, and 2 in a plain call"):
        file = exported(Logits(), X, input_names=["x"], dynamic_axes=AXES)
    x = torch.randn(7, 3)
    same(x * 2, run(file, x))


class Wrong(nn.Module):
    """Its branch for exporters takes another way, which is wrong for negative numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).sqrt() if not onnxport.is_in_onnx_export() else x + 0


def test_other_values_are_told() -> None:
    with pytest.warns(onnxport.TraceWarning, match="result 0 is another one"):
        program = onnxport.export(Wrong(), torch.randn(2, 3) - 5)
    assert any("is_in_onnx_export" in warning for warning in program.report.warnings)
    assert program.verification.passed
    same(X, [program(X)])


class Equal(nn.Module):
    """Another way to the same result."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Equal.calls += 1
        return x + x if onnxport.is_in_onnx_export() else x * 2


def test_the_same_values_need_no_warning_and_nothing_else_costs_a_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported(Equal(), X)
    calls, Equal.calls = Equal.calls, 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exported(Equal(), X, verify=False)
    assert Equal.calls < calls


class Unasking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_a_model_that_does_not_ask_is_not_run_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxport import compat  # noqa: PLC0415

    monkeypatch.setattr(compat, "in_no_export", lambda: pytest.fail("a plain run"))
    exported(Unasking(), X)
    with pytest.raises(pytest.fail.Exception, match="a plain run"):
        exported(Equal(), X)


class Refusing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not onnxport.is_in_onnx_export():
            raise RuntimeError("train me first")
        return x + 1


def test_a_plain_call_that_raises_is_told() -> None:
    with pytest.warns(onnxport.TraceWarning, match="train me first"):
        file = exported(Refusing(), X)
    same(X + 1, run(file, X))


def test_outside_of_an_export_the_answer_is_no() -> None:
    assert not onnxport.is_in_onnx_export() and not torch.onnx.is_in_onnx_export()
    heard: list[bool] = []

    class Elsewhere(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heard.append(torch.onnx.is_in_onnx_export())
            thread = threading.Thread(target=lambda: heard.append(torch.onnx.is_in_onnx_export()))
            thread.start()
            thread.join()
            return x

    exported(Elsewhere(), X, verify=False)
    assert heard and all(heard), "a model may run parts of itself in threads"
    assert not onnxport.is_in_onnx_export() and not torch.onnx.is_in_onnx_export()


def test_a_later_check_compares_with_the_same() -> None:
    with pytest.warns(onnxport.TraceWarning):
        file = exported(Logits(), X, input_names=["x"], dynamic_axes=AXES)
    assert onnxport.verify(file, Logits(), X).passed
