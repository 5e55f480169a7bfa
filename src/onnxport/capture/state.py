"""The model comes back exactly as it was: mode, parameters, buffers, attributes and hooks, also after an error."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from onnxport import compat
from onnxport.capture.attributes import ScriptState

CONTAINERS = (dict, list, set, OrderedDict)


class ModelState:
    """A snapshot of modules and all of their submodules.

    Buffers are copied. Parameters, and tensors among the attributes, are copied only when something is about to write
    to them (`before_write`): a model of several gigabytes must not need twice its memory. Attributes are kept one level
    deep, with lists and dicts copied, so that what a forward pass caches on the module is forgotten again.
    """

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        self._modules = [module for root in roots for module in root.modules()]
        self._scripts = ScriptState(self._modules)
        self._attributes = [(dict(module.__dict__), _copies(module.__dict__)) for module in self._modules]
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._watched: dict[int, list[torch.Tensor]] = {}
        for module in self._modules:
            for buffer in module._buffers.values():
                if buffer is not None:
                    self._tensors.setdefault(id(buffer), (buffer, buffer.detach().clone()))
            for held in _held_tensors(module.__dict__):
                self._watched.setdefault(compat.storage_key(held), []).append(held)

    def before_write(self, tensor: torch.Tensor) -> None:
        """Keep copies of the model's tensors that share memory with this one."""
        for held in self._watched.get(compat.storage_key(tensor), ()):
            if id(held) not in self._tensors:
                self._tensors[id(held)] = (held, held.detach().clone())

    def restore(self) -> None:
        self._scripts.restore()
        for module, (attributes, contents) in zip(self._modules, self._attributes, strict=True):
            for name, content in contents.items():
                if content or attributes[name]:  # most are hooks, of which there are none
                    _refill(attributes[name], content)
            module.__dict__.clear()
            module.__dict__.update(attributes)
        with torch.no_grad():
            for tensor, content in self._tensors.values():
                _write_back(tensor, content)


def _held_tensors(attributes: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors among the attributes and in the containers among them, parameters first of all."""
    for value in attributes.values():
        contents = value.values() if isinstance(value, dict) else value if type(value) in CONTAINERS else (value,)
        for held in contents:
            if isinstance(held, torch.Tensor) and held.layout is torch.strided:
                yield held


def _copies(attributes: dict[str, Any]) -> dict[str, Any]:
    """Shallow copies of the containers among the attributes, hooks and parameters among them."""
    return {name: value.copy() for name, value in attributes.items() if type(value) in CONTAINERS}


def _refill(container: Any, content: Any) -> None:
    """Give a container its content back and stay the same object: handles of hooks refer to it."""
    if isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        container.update(content)


def _write_back(tensor: torch.Tensor, content: torch.Tensor) -> None:
    if tensor.shape != content.shape:
        tensor.data = content
    elif not _same_bits(tensor, content):
        tensor.detach().copy_(content)


def _same_bits(tensor: torch.Tensor, content: torch.Tensor) -> bool:
    return torch.equal(tensor, content) or bool(((tensor == content) | (tensor.isnan() & content.isnan())).all())


class WriteGuard(TorchFunctionMode):
    """Tells the state before a torch function writes to a tensor."""

    def __init__(self, state: ModelState) -> None:
        super().__init__()
        self.state = state

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.guard(getattr(function, "__name__", ""), args, kwargs)
        return function(*args, **kwargs)

    def guard(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before each function with its name and arguments."""
        if name.endswith("_") and args and isinstance(args[0], torch.Tensor):
            self.state.before_write(args[0])
        elif isinstance(kwargs.get("out"), torch.Tensor):
            self.state.before_write(kwargs["out"])


@contextlib.contextmanager
def training_mode(roots: Iterable[nn.Module], train: bool | None) -> Iterator[None]:
    """Switch every submodule to training or evaluation, and back to what each was before. None changes nothing.

    A frozen module of TorchScript has no modes.
    """
    outer = [] if train is None else [root for root in roots if hasattr(root, "training")]
    modules = [module for root in outer for module in root.modules() if hasattr(module, "training")]
    before = [(module, module.training) for module in modules]
    for root in outer:
        root.train(bool(train))
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode
