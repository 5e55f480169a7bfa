"""The tensors of one safetensors file, or of a folder with several, as memory that the files are mapped to."""

from __future__ import annotations

import functools
import json
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from onnxport.errors import OptionError
from onnxport.save.checkpoint.safetensors import Entry, read_header
from onnxport.save.stored import Place

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Checkpoint:
    """The tensors by their names; each is the memory of its file."""

    path: Path
    entries: Mapping[str, Entry]

    @functools.cached_property
    def _mapped(self) -> dict[Path, mmap.mmap]:
        found = {}
        for path in dict.fromkeys(entry.path for entry in self.entries.values()):
            with open(path, "rb") as file:
                # What a model writes to its weights stays in memory; the file does not change.
                found[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return found

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor, without a copy; with one where it does not begin where its elements may."""
        entry = self.entries[name]
        if not entry.length:
            return torch.empty(entry.shape, dtype=entry.dtype)
        flat = torch.frombuffer(self._mapped[entry.path], dtype=torch.uint8, count=entry.length, offset=entry.offset)
        if flat.data_ptr() % entry.dtype.itemsize:
            flat = flat.clone()
        return flat.view(entry.dtype).reshape(entry.shape)

    def place(self, name: str) -> Place:
        """Where the tensor is."""
        entry = self.entries[name]
        return Place(entry.path, entry.offset, entry.length)


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """A safetensors file, or a folder with one, with an index of several, or with several."""
    place = Path(path)
    if not place.is_dir():
        return Checkpoint(place, read_header(place))
    entries: dict[str, Entry] = {}
    for file in _files(place):
        entries.update(read_header(file))
    return Checkpoint(place, entries)


def _files(folder: Path) -> list[Path]:
    if (folder / INDEX).is_file():
        try:
            names = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OptionError(f"weights: {folder / INDEX} is no index of safetensors files") from error
        missing = sorted(str(name) for name in names if not (folder / str(name)).is_file())
        if missing:
            raise OptionError(f"weights: {folder} lacks {', '.join(missing)}, which its index names")
        return [folder / name for name in sorted(names)]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise OptionError(f"weights: there is no {SINGLE} in {folder}, nor another safetensors file")
    return found
