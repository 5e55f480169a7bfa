"""Weights whose bytes are in a file already: the model's file refers to them instead of holding a copy."""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir
import torch

from onnxport.errors import SaveError


@dataclass(frozen=True)
class Place:
    """Bytes of a file."""

    path: Path
    offset: int
    length: int


@dataclass
class References:
    """Memory that is the content of files. What is a part of such memory has a place in the file, too."""

    _starts: list[int] = field(default_factory=list)
    _known: dict[int, tuple[Place, torch.Tensor]] = field(default_factory=dict)

    def add(self, tensor: torch.Tensor, place: Place) -> None:
        """The memory of a tensor, whose elements lie in order, is what the file has there."""
        start = tensor.data_ptr()
        if start not in self._known and place.length and place.offset % tensor.element_size() == 0:
            bisect.insort(self._starts, start)
            self._known[start] = place, tensor  # kept, so that nothing else gets this memory

    def has(self, tensor: ir.TensorProtocol | None) -> bool:
        """Whether the bytes of a stored tensor are in a file."""
        return tensor is not None and self.place_of(tensor) is not None

    def place_of(self, tensor: ir.TensorProtocol) -> Place | None:
        """Where the bytes of a stored tensor are."""
        if not self._starts or tensor.dtype.bitwidth < 8:
            return None
        array = tensor.numpy()
        if not array.flags.c_contiguous:
            return None
        address = array.ctypes.data
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        place = self._known[self._starts[index]][0]
        inside = address - self._starts[index]
        if inside + array.nbytes > place.length:
            return None
        return Place(place.path, place.offset + inside, array.nbytes)


def location(path: Path, folder: Path) -> str:
    """The path of a file as a model in the folder may give it; SaveError where it is not below that folder."""
    real, base = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if not real.is_relative_to(base):
        raise SaveError(
            f"a model in {folder} cannot refer to {path}: ONNX takes files of its own folder and below. Put the "
            "model there, or give external_data=True for a copy of the weights beside the model"
        )
    return real.relative_to(base).as_posix()
