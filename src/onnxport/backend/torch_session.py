"""A model with operators of torch, loaded to be run with torch tensors in and out."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from onnxport import backend


class TorchSession:
    """What `backend.prepare` loads, with the interface of the sessions that files are checked in."""

    def __init__(self, source: str | bytes) -> None:
        self._prepared = backend.prepare(source)

    def run(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        return self._prepared.run_tensors({name: value.cpu() for name, value in inputs.items()})
