"""The registry of converters by operator. Built once from the modules of ``ops/``, then unchanged."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, Protocol, TypeVar

import torch

from onnxport.graph.ir import Node

Converter = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__onnxport_operators__"


class Kind(enum.Enum):
    """The tensors that a converter is for: real ones; complex ones; or complex ones by the converter for real ones.

    A converter ``BY_PARTS`` gets the one for real tensors as its first argument.
    """

    REAL = enum.auto()
    COMPLEX = enum.auto()
    BY_PARTS = enum.auto()


@dataclass(frozen=True)
class Entry:
    """A converter made from a table row, for families of similar operators."""

    operators: tuple[str, ...]
    converter: Converter
    kind: Kind = Kind.REAL


def converter(*operators: str, kind: Kind = Kind.REAL) -> Callable[[Function], Function]:
    """Mark a function as the translation of operators: ``aten::max`` for all overloads, ``aten::max.dim`` for one."""

    def mark(function: Function) -> Function:
        setattr(function, _MARK, (operators, kind))
        return function

    return mark


def entries(converter: Callable[..., Converter], table: Mapping[str, Any]) -> list[Entry]:
    """One entry per row: ``converter(*row)`` is the translation of the row's operator."""
    return [
        Entry((operator,), converter(*row) if isinstance(row, tuple) else converter(row))
        for operator, row in table.items()
    ]


class Converters(Protocol):
    """An object that finds the converter of a captured node."""

    def of(self, node: Node) -> Converter | None: ...


class Registry:
    """Finds the converter of an operator: that of its overload, else that of all its overloads."""

    def __init__(self, converters: Mapping[str, Converter], for_complex: Mapping[str, Entry] | None = None) -> None:
        self._converters = MappingProxyType(dict(converters))
        self._for_complex = MappingProxyType(dict(for_complex or {}))

    def find(self, op: str, overload: str = "") -> Converter | None:
        return self._converters.get(f"{op}.{overload}") or self._converters.get(op)

    def find_complex(self, op: str, overload: str = "") -> Converter | None:
        """The converter for a node with a complex argument or result."""
        entry = self._for_complex.get(f"{op}.{overload}") or self._for_complex.get(op)
        if entry is None or entry.kind is Kind.COMPLEX:
            return None if entry is None else entry.converter
        real = self.find(op, overload)
        return None if real is None else functools.partial(entry.converter, real)

    def of(self, node: Node) -> Converter | None:
        """The converter of a captured node. There are none for complex32: torch itself lacks most operators."""
        if not node.is_complex:
            return self.find(node.op, node.overload)
        tensors = (value for value in (*node.values(), *node.outputs) if value.is_tensor)
        half = any(tensor.dtype == torch.complex32 for tensor in tensors)
        return None if half else self.find_complex(node.op, node.overload)

    def __len__(self) -> int:
        return len(self._converters)

    def __iter__(self) -> Iterable[str]:
        return iter(self._converters)


def modules_in(package: ModuleType) -> list[ModuleType]:
    """The modules that a package imports."""
    return [part for part in vars(package).values() if isinstance(part, ModuleType)]


def build(modules: Iterable[ModuleType]) -> Registry:
    """Collect the converters and the tables of the modules. Two converters for one operator are an error."""
    found: dict[str, Converter] = {}
    for_complex: dict[str, Entry] = {}
    for module in modules:
        for item in vars(module).values():
            for entry in _entries_in(item, module):
                for operator in entry.operators:
                    if operator in (found if entry.kind is Kind.REAL else for_complex):
                        raise ValueError(f"{operator} has two converters, one in {module.__name__}")
                    if entry.kind is Kind.REAL:
                        found[operator] = entry.converter
                    else:
                        for_complex[operator] = entry
    return Registry(found, for_complex)


def _entries_in(item: Any, module: ModuleType) -> list[Entry]:
    if isinstance(item, list) and item and all(isinstance(element, Entry) for element in item):
        return item
    mark = getattr(item, _MARK, None)
    if mark is None or getattr(item, "__module__", None) != module.__name__:
        return []
    operators, kind = mark
    return [Entry(operators, item, kind)]
