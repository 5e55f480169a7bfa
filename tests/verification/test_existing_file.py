"""Checks of files made earlier."""

from __future__ import annotations

import pathlib

import pytest
import torch
from torch import nn

import onnxport


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh())


def test_a_file_is_checked_at_its_dynamic_sizes(model: nn.Module, tmp_path: pathlib.Path) -> None:
    path, x = tmp_path / "m.onnx", torch.randn(5, 4)
    program = onnxport.export(model, x, path, dynamic_axes={"input": {0: "n"}})
    for exported in (path, str(path), path.read_bytes(), program):
        verification = onnxport.verify(exported, model, x)
        assert verification.passed and len({case.sizes["n"] for case in verification.cases}) >= 3
    chosen = onnxport.verify(path, model, x, sizes=[{"n": 1}, {"n": 9}])
    assert [case.sizes["n"] for case in chosen.cases] == [5, 1, 9]
    with torch.no_grad():
        model[0].weight.mul_(1.5)  # type: ignore[union-attr, operator]
    assert not onnxport.verify(path, model, x).passed


def test_a_static_file_is_checked_on_the_arguments_and_on_other_data(model: nn.Module) -> None:
    x = torch.randn(5, 4)
    verification = onnxport.verify(onnxport.export(model, x), model, (x,))
    assert verification.passed and [case.other_data for case in verification.cases] == [False, True, True]


def test_wrong_arguments_are_named(model: nn.Module) -> None:
    program = onnxport.export(model, torch.randn(5, 4), dynamic_axes={"input": {0: "n"}})
    with pytest.raises(onnxport.OptionError, match="'m'"):
        onnxport.verify(program, model, torch.randn(5, 4), sizes=[{"m": 3}])
    with pytest.raises(onnxport.OptionError, match="args hold 0 tensors"):
        onnxport.verify(program, lambda: None)
