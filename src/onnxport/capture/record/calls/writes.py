"""What a block of a record writes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.record import Ref
from onnxport.capture.record.values import Values


@dataclass
class Writes:
    """The tensors that a block writes to, as they were known before; and what they held, if that comes back."""

    undone: bool
    refs: dict[int, tuple[torch.Tensor, Ref]] = field(default_factory=dict)
    contents: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def before(self, tensor: torch.Tensor, ref: Ref | None) -> None:
        if ref is not None:
            self.refs.setdefault(id(tensor), (tensor, ref))
        key = compat.storage_key(tensor)
        if self.undone and key not in self.contents:
            storage: Any = tensor.untyped_storage()
            self.contents[key] = storage, storage.clone()

    def end(self, values: Values) -> None:
        """What was written to is the value that it was before: the graph tells what it holds after the block."""
        for tensor, ref in self.refs.values():
            values.alias(tensor, ref)
        with compat.dispatch.unseen():
            for storage, content in self.contents.values():
                storage.copy_(content)
