"""Axes that were checked only at the example's size are told of, with the reason."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn
from torch.export import Dim

import onnxport
from tests.capture.record.at_sizes import Function

TABLE = nn.Embedding(8, 4)


@torch.jit.script
def doubled_until_large(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        if bool(x.abs().sum() > 100):
            break
        x = x * 2
    return x


@torch.jit.script
def picky(x: torch.Tensor) -> torch.Tensor:
    if x.size(0) % 37 != 1:
        raise ValueError("rows have to be one more than a multiple of 37")
    return x * 2


def with_positions(x: torch.Tensor) -> torch.Tensor:
    """It takes as many positions as the table has."""
    return x + TABLE(torch.arange(x.shape[1]))


def looped_with_positions(x: torch.Tensor) -> torch.Tensor:
    return doubled_until_large(with_positions(x))


def looped(x: torch.Tensor) -> torch.Tensor:
    return doubled_until_large(x) + 1


def export(
    function: Any, x: torch.Tensor, folder: pathlib.Path, *axes: int, ranges: Any = None, verify: Any = True
) -> onnxport.Program:
    model = function if isinstance(function, (nn.Module, torch.jit.ScriptFunction)) else Function(function)
    labels = None if ranges else {"x": {axis: f"n{axis}" for axis in axes}}
    return onnxport.export(
        model, (x,), folder / "model.onnx", input_names=["x"], dynamic_axes=labels, dynamic_shapes=ranges, verify=verify
    )


def told(recorded: pytest.WarningsRecorder) -> list[str]:
    return [str(w.message) for w in recorded if w.category is onnxport.VerificationWarning]


def check(function: Any, folder: pathlib.Path, *sizes: tuple[int, ...]) -> None:
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for size in sizes:
        x = torch.randn(size)
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), function(x).detach())


def test_sizes_that_the_model_refuses(tmp_path: pathlib.Path) -> None:
    expected = r"axis 'n1' was checked only at the example's size, 8: the model does not accept n1=16 \(index out of "
    with pytest.warns(onnxport.VerificationWarning, match=expected):
        program = export(looped_with_positions, torch.randn(2, 8, 4), tmp_path, 1)
    assert [warning for warning in program.report.warnings if re.match(expected, warning)]
    assert program.verification.passed
    check(looped_with_positions, tmp_path, (2, 8, 4), (2, 5, 4))


def test_smaller_sizes_that_may_not_end(tmp_path: pathlib.Path) -> None:
    rows = Dim("rows", min=2, max=6)
    with pytest.warns(onnxport.VerificationWarning, match="'rows' was checked only at.*smaller sizes were not tri"):
        export(looped, torch.randn(6, 4), tmp_path, ranges=({0: rows},))
    check(looped, tmp_path, (6, 4), (2, 4))


def test_scripted_models(tmp_path: pathlib.Path) -> None:
    with pytest.warns(onnxport.VerificationWarning, match="'n0' was checked only at .*, 38: no other size"):
        export(picky, torch.randn(38, 2), tmp_path, 0)
    check(picky, tmp_path, (38, 2), (75, 2))


def test_only_the_axis_that_it_is_about(tmp_path: pathlib.Path, recwarn: pytest.WarningsRecorder) -> None:
    program = export(looped_with_positions, torch.randn(2, 8, 4), tmp_path, 0, 1)
    (message,) = told(recwarn)
    assert message.startswith("axis 'n1' ") and "n1=16" in message
    assert {axis.name: len(axis.verified) > 1 for axis in program.report.axes} == {"n0": True, "n1": False}


@pytest.mark.parametrize("verify", [True, "warn"])
@pytest.mark.parametrize("function", [with_positions, looped, lambda x: x.flatten(1), doubled_until_large])
def test_checked_axes(function: Any, verify: Any, tmp_path: pathlib.Path, recwarn: pytest.WarningsRecorder) -> None:
    export(function, torch.randn(2, 8, 4), tmp_path, 0, 1, verify=verify)
    assert not told(recwarn)


def test_without_a_check(tmp_path: pathlib.Path, recwarn: pytest.WarningsRecorder) -> None:
    program = export(looped_with_positions, torch.randn(2, 8, 4), tmp_path, 1, verify=False)
    assert not told(recwarn) and not program.report.warnings


def test_without_dynamic_axes(tmp_path: pathlib.Path, recwarn: pytest.WarningsRecorder) -> None:
    export(looped_with_positions, torch.randn(2, 8, 4), tmp_path)
    assert not told(recwarn)


def strict_unless_traced(x: torch.Tensor) -> torch.Tensor:
    """As libraries do that check their inputs: not where they are captured."""
    if not torch.jit.is_tracing() and (x.shape[2] % 8 or x.shape[3] % 8):
        raise ValueError("height and width have to be multiples of 8")
    return x.relu() + 1


def test_sizes_that_only_a_plain_call_refuses(tmp_path: pathlib.Path, recwarn: pytest.WarningsRecorder) -> None:
    program = export(strict_unless_traced, torch.randn(4, 3, 512, 512), tmp_path, 0, 2, 3)
    assert not told(recwarn)
    assert all(len(axis.verified) > 1 for axis in program.report.axes)
    check(strict_unless_traced, tmp_path, (1, 3, 8, 8), (3, 3, 40, 16))
