"""A model with the weights of a checkpoint: in the places of those without content, and recognised among the others."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.errors import OptionError, OptionTypeError
from onnxport.save.checkpoint.files import Checkpoint
from onnxport.save.stored import References

_NAMED_AT_ONCE = 20


@contextlib.contextmanager
def filled_from(checkpoint: Checkpoint, model: Callable[..., Any]) -> Iterator[References]:
    """The model with content in all of its weights, until it is left again; the memory that files have.

    What has content stays as it is. It is in a file, too, where that has the same bytes under the same name: loading
    may have joined, split or converted the others.
    """
    owner = _owner(model)
    names = _names(owner)
    references = References()
    made: dict[int, torch.Tensor] = {}
    for key, name in _missing(checkpoint, owner, names).items():
        tensor = checkpoint.tensor(name)
        references.add(tensor, checkpoint.place(name))
        given = names[key][1]
        is_parameter = isinstance(given, nn.Parameter)
        made[key] = nn.Parameter(tensor, requires_grad=given.requires_grad) if is_parameter else tensor
    for own, tensor in names.values():
        same = next((name for name in own if _is_stored(tensor, checkpoint, name)), None)
        if same is not None:
            references.add(tensor, checkpoint.place(same))
    replaced: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    try:
        for module in owner.modules():
            tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for held in tables:
                for name, tensor in list(held.items()):
                    if tensor is not None and id(tensor) in made:
                        replaced.append((held, name, tensor))
                        held[name] = made[id(tensor)]
        yield references
    finally:
        for held, name, tensor in replaced:
            held[name] = tensor


def _owner(model: Callable[..., Any]) -> nn.Module:
    """The module that a model is, or that it is a method of."""
    owner = model.__self__ if inspect.ismethod(model) else model
    if not isinstance(owner, nn.Module) or isinstance(owner, torch.jit.ScriptModule):
        raise OptionTypeError(f"weights: they belong to an nn.Module, and the model is a {type(model).__name__}")
    return owner


def _is_stored(tensor: torch.Tensor, checkpoint: Checkpoint, name: str) -> bool:
    """Whether the tensor is what the checkpoint has under that name."""
    entry = checkpoint.entries.get(name)
    if entry is None or not tensor.is_cpu or not tensor.is_contiguous():
        return False
    if entry.dtype != tensor.dtype or entry.shape != tuple(tensor.shape) or not entry.length:
        return False
    return _same_bytes(tensor.detach(), checkpoint.tensor(name))


def _same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.reshape(-1).view(torch.uint8), right.reshape(-1).view(torch.uint8))


def _names(model: nn.Module) -> dict[int, tuple[list[str], torch.Tensor]]:
    """The parameters and buffers by their identity, each with all of its names: weights may be shared."""
    found: dict[int, tuple[list[str], torch.Tensor]] = {}
    everything = (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    for tensors in everything:
        for name, tensor in tensors:
            found.setdefault(id(tensor), ([], tensor))[0].append(name)
    return found


def _unsaved(model: nn.Module) -> set[str]:
    """The buffers that are not part of the state_dict."""
    return {name for name, _ in model.named_buffers(remove_duplicate=False)} - model.state_dict(keep_vars=True).keys()


def _missing(
    checkpoint: Checkpoint, model: nn.Module, names: dict[int, tuple[list[str], torch.Tensor]]
) -> dict[int, str]:
    """The checkpoint's name for each tensor without content; all that is wrong with them is one error."""
    found: dict[int, str] = {}
    problems: list[str] = []
    unsaved = _unsaved(model)
    for key, (own, tensor) in names.items():
        if not compat.is_hollow(tensor):
            continue
        name = next((name for name in own if name in checkpoint.entries), None)
        if name is None:
            why = "is a buffer that is not saved, and has no content" if own[0] in unsaved else "is missing"
            problems.append(f"{own[0]} {why}")
            continue
        entry = checkpoint.entries[name]
        if entry.shape != tuple(tensor.shape):
            problems.append(f"{name} has the shape {list(entry.shape)}, and {list(tensor.shape)} in the model")
        elif entry.dtype != tensor.dtype:
            problems.append(f"{name} is {entry.dtype}, and {tensor.dtype} in the model")
        found[key] = name
    if problems:
        more = len(problems) - _NAMED_AT_ONCE
        rest = f"; and {more} more" if more > 0 else ""
        raise OptionError(f"weights: {checkpoint.path} does not fit: {'; '.join(problems[:_NAMED_AT_ONCE])}{rest}")
    return found
