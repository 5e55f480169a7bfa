"""What the tests of the classic surface share: exporting to bytes and running them at other values."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import onnx
import torch

import onnxport
from onnxport.verification.runtime import Session


def exported(model: Callable[..., Any], args: Any, **options: Any) -> bytes:
    """The file that an export writes."""
    target = io.BytesIO()
    onnxport.export(model, args, target, **options)
    return target.getvalue()


def run(file: bytes, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """What ONNX Runtime computes of a file."""
    session = Session(file)
    return session.run(dict(zip(session.input_names, inputs, strict=True)))


def same(expected: Any, results: list[torch.Tensor]) -> None:
    """Equal in number, shape, dtype and, but for rounding, in value."""
    tensors = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    assert len(tensors) == len(results)
    for tensor, result in zip(tensors, results, strict=True):
        assert (tensor.shape, tensor.dtype) == (result.shape, result.dtype)
        torch.testing.assert_close(result, tensor, rtol=1e-4, atol=1e-5)


def operators(file: bytes) -> list[str]:
    """The operators of a file's graph, in order."""
    return [f"{node.domain}::{node.op_type}".removeprefix("::") for node in graph_of(file).node]


def graph_of(file: bytes) -> onnx.GraphProto:
    return onnx.load_from_string(file).graph
