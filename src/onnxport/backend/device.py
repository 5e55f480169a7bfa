"""The device of a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import onnxruntime
import torch

from onnxport.errors import BackendError


@dataclass(frozen=True)
class Device:
    """``CPU``, ``CUDA`` or ``CUDA:n``, as torch and as ONNX Runtime name it."""

    kind: str
    index: int

    @staticmethod
    def of(name: str) -> Device:
        match = re.fullmatch(r"(CPU|CUDA)(?::(\d+))?", name, flags=re.IGNORECASE)
        if match is None:
            raise BackendError(f"a device is 'CPU', 'CUDA' or 'CUDA:n', not {name!r}")
        return Device(match[1].lower(), int(match[2] or 0))

    @property
    def present(self) -> bool:
        """Whether both torch and ONNX Runtime can use it here."""
        if self.kind == "cpu":
            return self.index == 0
        has_provider = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
        return has_provider and torch.cuda.is_available() and self.index < torch.cuda.device_count()

    @property
    def torch(self) -> torch.device:
        return torch.device(self.kind, self.index) if self.kind != "cpu" else torch.device("cpu")

    @property
    def providers(self) -> list[Any]:
        cpu = "CPUExecutionProvider"
        return [cpu] if self.kind == "cpu" else [("CUDAExecutionProvider", {"device_id": self.index}), cpu]
