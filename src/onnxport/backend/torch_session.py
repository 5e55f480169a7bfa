"""A model with torch operators, for runs on torch tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from onnxport import backend


class TorchSession:
    """A model loaded by `backend.prepare`, with the interface of the sessions in which files are checked."""

    def __init__(self, source: str | bytes) -> None:
        self._prepared = backend.prepare(source)

    def run(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        return self._prepared.run_tensors({name: value.cpu() for name, value in inputs.items()})
