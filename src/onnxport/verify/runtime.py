"""ONNX Runtime, with torch tensors in and out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import torch

FATAL = 4


class Session:
    """A loaded model. ``source`` is a path or the serialised model."""

    def __init__(self, source: str | bytes | os.PathLike[str]) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = FATAL
        given = source if isinstance(source, bytes) else os.fspath(source)
        self._session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        self.input_names = [entry.name for entry in self._session.get_inputs()]
        self.shapes = [list(entry.shape) for entry in self._session.get_inputs()]
        self.output_names = [entry.name for entry in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        feeds = {name: _to_ort(tensor) for name, tensor in inputs.items() if name in self.input_names}
        binding = self._session.run_with_ort_values(None, feeds)
        return [_to_torch(value) for value in binding]


def _to_ort(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        raw = tensor.view(torch.int16).numpy()
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, 16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape)))


def _to_torch(value: Any) -> torch.Tensor:
    if value.data_type() == "tensor(bfloat16)":
        return torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack()).clone()
    return torch.from_numpy(np.array(value.numpy()))
