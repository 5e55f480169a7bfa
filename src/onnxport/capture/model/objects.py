"""Objects that hold tensors in their attributes, such as the caches of keys and values that decoders take and return.

They are known by what they have, not by their class. Of any object the public attributes that hold tensors are its
parts. What has `layers` and an `update` is a cache: its layers are its parts, empty ones too, as a model fills them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import nn

Parts = tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]

LAYERS = "layers"
NAMES = {"keys": "key", "values": "value"}
# The number of entries that a layer has seen, where it keeps that beside its keys; they lie along this axis of them.
COUNT, ENTRIES = "cumulative_length", -2
MOST_LEVELS = 6


def object_parts(value: Any) -> Parts | None:
    """The parts of an object with tensors, named, and how to make another object of other parts; None for a leaf."""
    if not _is_plain(value):
        return None
    if is_cache(value):
        return _cache_parts(value)
    if not _holds(value, MOST_LEVELS):
        return None
    names = _attributes(value)
    return [(NAMES.get(name, name), getattr(value, name)) for name in names], lambda parts: _with(value, names, parts)


def is_cache(value: Any) -> bool:
    return isinstance(getattr(value, LAYERS, None), list) and callable(getattr(value, "update", None))


def _cache_parts(value: Any) -> Parts:
    """Layer by layer, each under its number, then what else there is."""
    layers = getattr(value, LAYERS)
    parts = [_layer_parts(layer) for layer in layers]
    rest = [name for name in _attributes(value) if name != LAYERS]
    children = [(f"{index}.{name}", child) for index, (found, _) in enumerate(parts) for name, child in found]
    children += [(name, getattr(value, name)) for name in rest]

    def assemble(given: list[Any]) -> Any:
        each = iter(given)
        made = [make([next(each) for _ in found]) for found, make in parts]
        return _with(value, [LAYERS, *rest], [made, *each])

    return children, assemble


def _layer_parts(layer: Any) -> Parts:
    if not _is_plain(layer):
        return [], lambda _: layer
    names = _attributes(layer)
    return [(NAMES.get(name, name), getattr(layer, name)) for name in names], lambda parts: _with(layer, names, parts)


def _with(value: Any, names: list[str], parts: list[Any]) -> Any:
    """A copy with these attributes. Its lists and dicts are copies: a model may write to them."""
    made = copy.copy(value)
    for name, content in vars(value).items():
        if isinstance(content, (list, dict, set)):
            setattr(made, name, copy.copy(content))
    for name, part in zip(names, parts, strict=True):
        setattr(made, name, part)
    _count(value, made)
    return made


def _count(value: Any, made: Any) -> None:
    """Let the number of entries follow the keys, where it is a number of Python's."""
    if type(getattr(value, COUNT, None)) is int and isinstance(getattr(value, "keys", None), torch.Tensor):
        before = value.keys.shape[ENTRIES]
        if getattr(value, COUNT) == before:
            setattr(made, COUNT, made.keys.shape[ENTRIES])


def _is_plain(value: Any) -> bool:
    unfit = isinstance(value, (torch.Tensor, nn.Module, ModuleType, type)) or callable(value)
    return hasattr(value, "__dict__") and not unfit


def _attributes(value: Any) -> list[str]:
    names = [name for name in vars(value) if not name.startswith("_")]
    return [name for name in names if _holds(getattr(value, name), MOST_LEVELS)]


def _holds(value: Any, levels: int) -> bool:
    """Whether there is a tensor in it, down to a few levels: objects may lead back to each other."""
    if isinstance(value, torch.Tensor):
        return True
    if levels == 0:
        return False
    if isinstance(value, (list, tuple)):
        return any(_holds(child, levels - 1) for child in value)
    if isinstance(value, Mapping):
        return any(_holds(child, levels - 1) for child in value.values())
    if dataclasses.is_dataclass(value) or _is_plain(value):
        contents = getattr(value, "__dict__", {})
        return any(_holds(child, levels - 1) for name, child in contents.items() if not name.startswith("_"))
    return False
