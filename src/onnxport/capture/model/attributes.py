"""Attributes of scripted modules that are kept in TorchScript: numbers, tensors, lists, dicts and objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from onnxport import compat


class ScriptState:
    """A snapshot of the attributes of scripted modules, without parameters and buffers."""

    def __init__(self, modules: list[nn.Module]) -> None:
        scripted = [module for module in modules if compat.scripts.is_script_module(module)]
        names = sorted(compat.scripts.script_attribute_names(scripted))
        self._held: list[tuple[Any, str, Any]] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        kept = {id(tensor) for module in scripted for tensor in (*module.parameters(), *module.buffers())}
        seen: set[int] = set()
        for module in scripted:
            self._keep(compat.scripts.script_object(module), names, seen)
        for _, _, value in self._held:
            for tensor in _tensors(value):
                if id(tensor) not in kept:
                    kept.add(id(tensor))
                    self._copies.append((tensor, tensor.detach().clone()))

    def _keep(self, script: Any, names: list[str], seen: set[int]) -> None:
        for name in names:
            if name == "training" or not script.hasattr(name):
                continue
            value = script.getattr(name)
            if not compat.scripts.is_script_object(value):
                self._held.append((script, name, value))
            elif not compat.scripts.is_script_module_object(value) and id(value) not in seen:
                seen.add(id(value))
                self._keep(value, names, seen)

    def restore(self) -> bool:
        """Restore all attributes; returns whether any had changed."""
        changed = False
        for script, name, value in self._held:
            if not _is_same(script.getattr(name), value):
                script.setattr(name, value)
                changed = True
        return write_back_all(self._copies) or changed

    def changed_names(self) -> list[str]:
        return [name for script, name, value in self._held if not _is_same(script.getattr(name), value)]

    def written(self) -> list[torch.Tensor]:
        """The tensors that have changed, other than parameters and buffers."""
        return [tensor for tensor, content in self._copies if not has_content(tensor, content)]

    def substitute(self, others: Mapping[int, torch.Tensor]) -> None:
        """Replace tensors, which are given by their ``id``."""
        for script, name, _ in self._held:
            value = script.getattr(name)
            if any(id(tensor) in others for tensor in _tensors(value)):
                script.setattr(name, _substituted(value, others))


def write_back_all(contents: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """Restore the content of each tensor; returns whether any had changed."""
    with torch.no_grad():
        return sum([_write_back(tensor, content) for tensor, content in contents]) > 0


def _write_back(tensor: torch.Tensor, content: torch.Tensor) -> bool:
    if has_content(tensor, content):
        return False
    if tensor.shape != content.shape:
        tensor.data = content
    else:
        tensor.detach().copy_(content)
    return True


def has_content(tensor: torch.Tensor, content: torch.Tensor) -> bool:
    """Whether a tensor has this shape and these values; NaN equals NaN."""
    if tensor.layout != torch.strided:  # torch does not compare sparse tensors
        tensor, content = tensor.to_dense(), content.to_dense()
    if torch.equal(tensor, content):
        return True
    same_shape = tensor.shape == content.shape
    return same_shape and bool(((tensor == content) | (tensor.isnan() & content.isnan())).all())


def _substituted(value: Any, others: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return others.get(id(value), value)
    if isinstance(value, dict):
        return {key: _substituted(part, others) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_substituted(part, others) for part in value)
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def _is_same(left: Any, right: Any) -> bool:
    """Whether an attribute is unchanged: the same tensors, equal numbers and strings."""
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return left is right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(map(_is_same, left.values(), right.values()))
    return bool(left == right)
