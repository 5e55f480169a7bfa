"""Objects with tensors in their attributes, such as the key-value caches that decoders take and return.

They are recognised by their attributes, not by their class. The parts of an object are its public attributes with
tensors. An object with `layers` and an `update` is a cache: its parts are its layers, also empty ones.
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
# The attribute of a layer that counts its entries, and the axis of its keys along which they are.
COUNT, ENTRIES = "cumulative_length", -2
MAX_LEVELS = 6


def object_parts(value: Any) -> Parts | None:
    """The named parts of an object, and a function that makes a copy with other parts; None for a leaf."""
    if not _is_plain(value):
        return None
    if is_cache(value):
        return _cache_parts(value)
    if not _holds(value, MAX_LEVELS):
        return None
    names = _attributes(value)
    return [(NAMES.get(name, name), getattr(value, name)) for name in names], lambda parts: _with(value, names, parts)


def is_cache(value: Any) -> bool:
    return isinstance(getattr(value, LAYERS, None), list) and callable(getattr(value, "update", None))


def _cache_parts(value: Any) -> Parts:
    """The layers by index, then the other parts."""
    layers = getattr(value, LAYERS)
    layer_parts = [_layer_parts(layer) for layer in layers]
    rest = [name for name in _attributes(value) if name != LAYERS]
    children = [(f"{index}.{name}", child) for index, (found, _) in enumerate(layer_parts) for name, child in found]
    children += [(name, getattr(value, name)) for name in rest]

    def assemble(parts: list[Any]) -> Any:
        each = iter(parts)
        made = [make([next(each) for _ in found]) for found, make in layer_parts]
        return _with(value, [LAYERS, *rest], [made, *each])

    return children, assemble


def _layer_parts(layer: Any) -> Parts:
    if not _is_plain(layer):
        return [], lambda _: layer
    names = _attributes(layer)
    return [(NAMES.get(name, name), getattr(layer, name)) for name in names], lambda parts: _with(layer, names, parts)


def _with(value: Any, names: list[str], parts: list[Any]) -> Any:
    """A copy of the object with these attributes. Lists and dicts are copied, too: a model may write to them."""
    made = copy.copy(value)
    for name, content in vars(value).items():
        if isinstance(content, (list, dict, set)):
            setattr(made, name, copy.copy(content))
    for name, part in zip(names, parts, strict=True):
        setattr(made, name, part)
    _count(value, made)
    return made


def _count(value: Any, made: Any) -> None:
    """Set the number of entries from the keys, if it is a Python number."""
    if type(getattr(value, COUNT, None)) is int and isinstance(getattr(value, "keys", None), torch.Tensor):
        before = value.keys.shape[ENTRIES]
        if getattr(value, COUNT) == before:
            setattr(made, COUNT, made.keys.shape[ENTRIES])


def _is_plain(value: Any) -> bool:
    unfit = isinstance(value, (torch.Tensor, nn.Module, ModuleType, type)) or callable(value)
    return hasattr(value, "__dict__") and not unfit


def _attributes(value: Any) -> list[str]:
    names = [name for name in vars(value) if not name.startswith("_")]
    return [name for name in names if _holds(getattr(value, name), MAX_LEVELS)]


def _holds(value: Any, levels: int) -> bool:
    """Whether it contains a tensor, down to a few levels: objects may refer to each other."""
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
