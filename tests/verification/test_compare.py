"""Telling rounding from error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onnxport
from tests.recording import is_recorded


class Steps(nn.Module):
    """Thirty steps of a map that amplifies rounding errors if its gain is large, and forgets them if it is small."""

    def __init__(self, gain: float, error: float) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(64, 64) / 8)
        self.gain, self.error = gain, error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(30):
            x = torch.sin(self.gain * x @ self.weight)
        return x + self.error if is_recorded() else x


def test_a_model_that_amplifies_rounding_is_not_called_wrong() -> None:
    program = onnxport.export(Steps(2.0, 0.0), torch.randn(5, 64))
    assert program.verification.passed and program.verification.max_abs_error > 1e-3


def test_a_small_error_of_a_tame_model_is() -> None:
    with pytest.raises(onnxport.VerificationError):
        onnxport.export(Steps(1.0, 1e-3), torch.randn(5, 64))


def test_tiny_results_are_compared_too() -> None:
    class Tiny(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (2e-6 if is_recorded() else 1e-6)

    with pytest.raises(onnxport.VerificationError):
        onnxport.export(Tiny(), torch.rand(50))


class LargeSum(nn.Module):
    """ONNX Runtime adds integers as float64, which does not hold all of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 2**60).sum(1)


def test_integers_that_differ_in_their_last_digits() -> None:
    with pytest.raises(onnxport.VerificationError, match="aten::sum") as raised:
        onnxport.export(LargeSum(), (torch.tensor([[1, 2], [4, 5]]),))
    assert "2 of 2 elements differ; largest difference" in str(raised.value)
    assert f"instead of {2**61 + 3}" in str(raised.value)
