"""Sizes that the caller asks to be checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

import onnxport


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return (x.reshape(2, -1) * 2).reshape(x.shape)


def wrong_at_twelve(proto: onnx.ModelProto, inputs: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
    """A runtime with a fault at one size."""
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, inputs)
    return [np.asarray(result) + (inputs["x"].shape[0] == 12)]


def export(model: nn.Module = Rows(), **options: Any) -> onnxport.Program:  # noqa: B008 it has no state
    axes = {"x": {0: "n", 1: "width"}}
    return onnxport.export(model, torch.randn(4, 6), input_names=["x"], dynamic_axes=axes, **options)


def test_the_file_is_checked_there() -> None:
    found = export(check_sizes=[{"n": 10}, {"n": 2, "width": 9}, {}]).verification
    sizes = [dict(case.sizes) for case in found.cases]
    assert {"n": 10, "width": 6} in sizes and {"n": 2, "width": 9} in sizes
    assert found.passed


def test_a_fault_at_such_a_size_is_found() -> None:
    assert export(verify=wrong_at_twelve).verification.passed
    with pytest.raises(onnxport.VerificationError, match="12"):
        export(verify=wrong_at_twelve, check_sizes=[{"n": 12}])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([{"m": 3}], "no dynamic axis 'm'"),
        ([{"n": -1}], "'n'"),
        ([{"n": True}], "'n'"),
        ({"n": 3}, "list"),
        ("n", "list"),
    ],
)
def test_sizes_that_cannot_be_meant(sizes: Any, said: str) -> None:
    with pytest.raises(onnxport.OptionError, match=said):
        export(check_sizes=sizes)


def test_sizes_that_the_model_refuses() -> None:
    with pytest.raises(onnxport.OptionError, match=r"does not take.*'n': 3.*'width': 5"):
        export(check_sizes=[{"n": 3, "width": 5}])
