"""Models without weights, on the meta device or fake: substitutes replace the weights during the export.

Only tensors that are not in the file may be without content: with ``export_params=False`` the parameters are inputs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture.model.parameters import Roots
from onnxport.capture.model.structure import flatten

# If there is no memory for all weights, larger tensors are one expanded number: they take no memory.
_LARGE_BYTES = 2**20


class StandIns:
    """Substitutes for tensors without content, one for each tensor.

    ``roomy`` says whether there is memory for random weights. With random weights the check in ONNX Runtime finds
    mistakes that zeros would hide.
    """

    def __init__(self, *, roomy: bool) -> None:
        self._roomy = roomy
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._generator = torch.Generator().manual_seed(0)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The substitute of a tensor; the tensor itself if it has content."""
        if not compat.is_hollow(tensor):
            return tensor
        if id(tensor) not in self._made:
            content = self._content(tensor)
            if isinstance(tensor, nn.Parameter):
                content = nn.Parameter(content, requires_grad=tensor.requires_grad)
            self._made[id(tensor)] = tensor, content
        return self._made[id(tensor)][1]

    def _content(self, tensor: torch.Tensor) -> torch.Tensor:
        shape, dtype = tuple(tensor.shape), tensor.dtype
        if not dtype.is_floating_point:
            return torch.zeros(shape, dtype=dtype)  # zero is an index into any table
        if not self._roomy and tensor.numel() * tensor.element_size() > _LARGE_BYTES:
            return torch.full((1,) * len(shape), 0.01, dtype=dtype).expand(shape)
        drawn = torch.rand(shape, generator=self._generator)
        if len(shape) < 2:
            return (drawn + 0.5).to(dtype)  # may be a variance, which is positive
        return ((2 * drawn - 1) / math.sqrt(max(math.prod(shape[1:]), 1))).to(dtype)


def hollow_bytes(model: Callable[..., Any]) -> int:
    """The memory that the parameters without content would take."""
    tensors = (tensor for module in _modules(model) for _, _, tensor in _registered(module))
    hollow = {id(tensor): tensor for tensor in tensors if compat.is_hollow(tensor)}
    return sum(tensor.numel() * tensor.element_size() for tensor in hollow.values())


@contextlib.contextmanager
def filled(model: Callable[..., Any], stand_ins: StandIns) -> Iterator[None]:
    """The model with content in all of its parameters and buffers, within a with statement."""
    replaced: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    try:
        for module in _modules(model):
            for table, name, tensor in _registered(module):
                if compat.is_hollow(tensor):
                    replaced.append((table, name, tensor))
                    table[name] = stand_ins.of(tensor)
        yield
    finally:
        for table, name, tensor in replaced:
            table[name] = tensor


def with_content(value: Any, stand_ins: StandIns) -> Any:
    """Arguments of any nesting, with content in all of their tensors."""
    leaves, structure = flatten(value)
    if not any(isinstance(leaf, torch.Tensor) and compat.is_hollow(leaf) for leaf in leaves):
        return value
    return structure.unflatten([stand_ins.of(x) if isinstance(x, torch.Tensor) else x for x in leaves])


def _modules(model: Callable[..., Any]) -> Iterator[nn.Module]:
    return (module for root in Roots(model).modules() for module in root.modules())


def _registered(module: nn.Module) -> list[tuple[dict[str, Any], str, torch.Tensor]]:
    """The parameters and buffers of one module, each with the dict that has it."""
    if compat.scripts.is_scripted(module):
        return []
    tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
    return [(table, name, tensor) for table in tables for name, tensor in table.items() if tensor is not None]
