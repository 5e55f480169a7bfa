"""The tensors of a run, known by numbers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import torch

from onnxport import compat
from onnxport.capture.record.record import Record, Ref


class Values:
    """The tensors of a run by number. No activation is kept alive: ids are reused, and a weak reference tells."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], Ref]] = {}
        self.written: set[int] = set()  # constants that are copies already

    def new(self, tensor: torch.Tensor) -> Ref:
        """A number for what a call gave; the same tensor has another number after each write."""
        types = self.record.types
        ref = Ref(len(types))
        types.append((tensor.dtype, tuple(tensor.shape)))
        self._known[id(tensor)] = weakref.ref(tensor), ref
        return ref

    def known(self, tensor: torch.Tensor) -> Ref | None:
        found = self._known.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None

    def alias(self, tensor: torch.Tensor, ref: Ref) -> None:
        """Another object for a value that is known."""
        self._known[id(tensor)] = weakref.ref(tensor), ref

    def forget(self, tensor: torch.Tensor) -> None:
        """A tensor that is no longer what it was."""
        self._known.pop(id(tensor), None)

    def number(self, value: int | float) -> Ref:
        """A number that a script returned."""
        self.record.types.append((torch.int64 if type(value) is int else torch.float64, ()))
        return Ref(len(self.record.types) - 1)

    def constant(self, tensor: torch.Tensor) -> Ref:
        """What no call made: a parameter, or a tensor that the model has from elsewhere. It is held."""
        ref = self.new(tensor)
        self.record.constants[ref.number] = tensor
        return ref

    def computed(self) -> Iterator[tuple[weakref.ref[torch.Tensor], Ref]]:
        """The tensors that calls made and that are still there."""
        given = {*self.record.inputs, *map(Ref, self.record.constants)}
        for reference, ref in self._known.values():
            if reference() is not None and ref not in given:
                yield reference, ref

    def sharing(self, tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, Ref]]:
        """The tensors that calls made, or inputs, which lie in the memory of this one as it does."""
        index = compat.memory_place(tensor)
        for reference, ref in list(self._known.values()) if index is not None else ():
            other = reference()
            if other is not None and ref.number not in self.record.constants and compat.memory_place(other) == index:
                yield other, ref
