"""Exports that are run in ONNX Runtime at other sizes than the example's, and compared with the model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import onnxruntime
import torch
from torch import nn

import onnxport


class Function(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def check(
    model: Callable[..., Any],
    folder: pathlib.Path,
    example: Sequence[int] = (3, 4),
    others: Sequence[Sequence[int]] = ((5, 4), (2, 4)),
    tolerance: float = 1e-5,
) -> None:
    """The first axis is dynamic. The results have the dtype, shape and content of the model's at every size."""
    module = model if isinstance(model, nn.Module) else Function(model)
    x, file = torch.randn(*example), folder / "model.onnx"
    dynamic = {"x": {axis: f"n{axis}" for axis in range(len(example)) if any(s[axis] != example[axis] for s in others)}}
    onnxport.export(module, (x,), file, input_names=["x"], dynamic_axes=dynamic)
    session = onnxruntime.InferenceSession(file)
    for size in (example, *others):
        given = torch.randn(*size)
        (result, *_) = session.run(None, {"x": given.numpy()})
        with torch.no_grad():
            expected = module(given.clone())
        torch.testing.assert_close(torch.from_numpy(result), expected.detach(), rtol=tolerance, atol=tolerance)
