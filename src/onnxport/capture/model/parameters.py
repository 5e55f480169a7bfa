"""Finds a model's parameters: in the module itself, or in the modules and tensors that a function uses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.errors import CaptureError

Member = nn.Module | torch.Tensor


class Roots:
    """The modules and tensors that belong to a model, by the names that the model's code has for them."""

    def __init__(self, model: Callable[..., Any]) -> None:
        members = dict(_members(model))
        self._modules = {name: value for name, value in members.items() if isinstance(value, nn.Module)}
        self._tensors = {name: value for name, value in members.items() if isinstance(value, torch.Tensor)}

    def modules(self) -> Iterator[nn.Module]:
        """The outermost modules."""
        return iter(self._modules.values())

    def paths(self) -> dict[str, nn.Module]:
        """Every submodule by its path."""
        return {
            _joined(root, path): module
            for root, outer in self._modules.items()
            for path, module in outer.named_modules()
        }

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """Parameters and buffers under their state_dict names, each tensor once, non-persistent buffers included."""
        found: dict[int, tuple[str, torch.Tensor]] = {}
        for root, module in self._modules.items():
            for name, tensor in (*module.state_dict(keep_vars=True).items(), *module.named_buffers()):
                if isinstance(tensor, torch.Tensor) and id(tensor) not in found:
                    if nn.parameter.is_lazy(tensor):
                        raise CaptureError(
                            f"the parameter {name!r} is not initialized; call the model once before the export"
                        )
                    if compat.is_hollow(tensor):
                        raise CaptureError(
                            f"the parameter {name!r} is on the meta device or fake and has no content; load the "
                            "weights first, pass the safetensors file or folder that has them as weights=, or export "
                            "with export_params=False"
                        )
                    found[id(tensor)] = _joined(root, name), tensor
        for name, tensor in self._tensors.items():
            found.setdefault(id(tensor), (name, tensor))
        return list(found.values())


def outermost_scripts(paths: dict[str, nn.Module]) -> list[tuple[str, nn.Module]]:
    """The scripted modules that are not inside another scripted module, by path."""
    found: dict[str, nn.Module] = {}
    for path, module in sorted(paths.items()):
        if not compat.scripts.is_script_module(module):
            continue
        within = any(path.startswith(f"{outer}.") for outer in found)
        if not within and not any(module is other for other in found.values()):
            found[path] = module
    return list(found.items())


def _joined(root: str, name: str) -> str:
    return f"{root}.{name}" if root and name else root or name


def _members(model: object) -> Iterator[tuple[str, Member]]:
    """Modules and tensors of a callable: a method's object, a partial's arguments, a function's globals and closure.

    Tensors are parameters if they require a gradient; others are constants of the record.
    """
    if isinstance(model, nn.Module):
        yield "", model
    elif isinstance(model, functools.partial):
        yield from _members(model.func)
        bound = {**{str(i): value for i, value in enumerate(model.args)}, **model.keywords}
        yield from ((name, value) for name, value in bound.items() if _counts(value))
    elif inspect.ismethod(model):
        if isinstance(model.__self__, nn.Module):
            yield "", model.__self__
    elif inspect.isfunction(model):
        used = inspect.getclosurevars(model)
        yield from ((n, v) for n, v in {**used.globals, **used.nonlocals}.items() if _counts(v))


def _counts(value: object) -> bool:
    return isinstance(value, nn.Module) or (isinstance(value, torch.Tensor) and value.requires_grad)
