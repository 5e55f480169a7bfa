"""Arguments and results of any nesting as flat lists of leaves, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.objects import object_parts
from onnxport.errors import OptionTypeError

Rebuild = Callable[[list[Any]], Any]


class SequencePlaceholder:
    """A leaf for a list of tensors with a length that is only known at run time."""


@dataclasses.dataclass(frozen=True)
class Structure:
    """The structure of nested Python data. ``names`` are the dotted paths of its leaves."""

    names: tuple[str, ...]
    rebuild: Rebuild

    def unflatten(self, leaves: list[Any]) -> Any:
        return self.rebuild(list(leaves))


def flatten(value: Any, name: str = "") -> tuple[list[Any], Structure]:
    """The leaves of nested tuples, lists, dicts, dataclasses, registered containers and objects, and the structure."""
    parts = _parts(value)
    if parts is None:
        return [value], Structure((name,), lambda leaves: leaves[0])
    children, assemble = parts
    leaves: list[Any] = []
    structures: list[tuple[int, Structure]] = []
    for key, child in children:
        found, structure = flatten(child, f"{name}.{key}" if name else key)
        leaves += found
        structures.append((len(found), structure))

    def rebuild(leaves: list[Any]) -> Any:
        remaining = iter(leaves)
        return assemble([s.rebuild([next(remaining) for _ in range(count)]) for count, s in structures])

    return leaves, Structure(tuple(n for _, s in structures for n in s.names), rebuild)


def children_of(value: Any) -> list[tuple[str, Any]] | None:
    """The named parts of a container, in the order of its leaves; None for a leaf."""
    parts = _parts(value)
    return None if parts is None else parts[0]


def flatten_like(value: Any, template: Any) -> list[Any]:
    """The leaves by the structure of the template: a list where that has a sequence."""
    if isinstance(template, SequencePlaceholder):
        return [list(value)]
    if isinstance(template, torch.Tensor) and isinstance(value, list):
        return [torch.tensor(value, dtype=template.dtype)]  # a list of numbers is one tensor
    parts, wanted = _parts(value), _parts(template)
    if parts is None or wanted is None:
        return [value]
    pairs = zip(parts[0], wanted[0], strict=True)
    return [leaf for (_, child), (_, part) in pairs for leaf in flatten_like(child, part)]


def _parts(value: Any) -> tuple[list[tuple[str, Any]], Rebuild] | None:
    """The named children of a container and how to assemble it again; None for a leaf."""
    if isinstance(value, (torch.Tensor, type)):
        return None
    kind: Any = type(value)
    if isinstance(value, Mapping) and any(isinstance(key, torch.Tensor) for key in value):
        raise OptionTypeError(
            "a dict has tensors as keys, which would be constants of the graph; use strings or numbers"
        )
    if compat.is_registered_container(value):
        return compat.container_parts(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(kind._fields, value, strict=True)), lambda parts: kind(*parts)
    if isinstance(value, (tuple, list)):
        return [(str(index), child) for index, child in enumerate(value)], kind
    if isinstance(value, Mapping):
        return _mapping_parts(value)
    if dataclasses.is_dataclass(value):
        return _dataclass_parts(value)
    return object_parts(value)


def _mapping_parts(value: Mapping[Any, Any]) -> tuple[list[tuple[str, Any]], Rebuild]:
    keys = list(value)
    kind: Any = type(value)

    def assemble(parts: list[Any]) -> Any:
        items = dict(zip(keys, parts, strict=True))
        return items if kind is dict else kind(items)

    return [(str(key), value[key]) for key in keys], assemble


def _dataclass_parts(value: Any) -> tuple[list[tuple[str, Any]], Rebuild]:
    names = [field.name for field in dataclasses.fields(value) if field.init]

    def assemble(parts: list[Any]) -> Any:
        return dataclasses.replace(value, **dict(zip(names, parts, strict=True)))

    return [(name, getattr(value, name)) for name in names], assemble
