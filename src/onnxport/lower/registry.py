"""Which converter translates which operator. Built once from the modules of ``ops/`` and never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

Converter = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__onnxport_operators__"


@dataclass(frozen=True)
class Entry:
    """A converter made from a table row, for families of alike operators."""

    operators: tuple[str, ...]
    converter: Converter


def converter(*operators: str) -> Callable[[Function], Function]:
    """Mark a function as the translation of operators: ``aten::max`` for all overloads, ``aten::max.dim`` for one."""

    def mark(function: Function) -> Function:
        setattr(function, _MARK, operators)
        return function

    return mark


def entries(converter: Callable[..., Converter], table: Mapping[str, Any]) -> list[Entry]:
    """One entry per row: ``converter(*row)`` is the translation of the row's operator."""
    return [
        Entry((operator,), converter(*row) if isinstance(row, tuple) else converter(row))
        for operator, row in table.items()
    ]


class Registry:
    """Finds the converter of an operator: that of its overload, else that of all its overloads."""

    def __init__(self, converters: Mapping[str, Converter]) -> None:
        self._converters = MappingProxyType(dict(converters))

    def find(self, op: str, overload: str = "") -> Converter | None:
        return self._converters.get(f"{op}.{overload}") or self._converters.get(op)

    def __len__(self) -> int:
        return len(self._converters)

    def __iter__(self) -> Iterable[str]:
        return iter(self._converters)


def build(modules: Iterable[ModuleType]) -> Registry:
    """Collect what the modules mark and the tables they hold. An operator translated twice is a mistake."""
    found: dict[str, Converter] = {}
    for module in modules:
        for item in vars(module).values():
            for entry in _entries_in(item, module):
                for operator in entry.operators:
                    if operator in found:
                        raise ValueError(f"{operator} has two converters, one in {module.__name__}")
                    found[operator] = entry.converter
    return Registry(found)


def _entries_in(item: Any, module: ModuleType) -> list[Entry]:
    if isinstance(item, list) and item and all(isinstance(element, Entry) for element in item):
        return item
    operators = getattr(item, _MARK, None)
    if operators is None or getattr(item, "__module__", None) != module.__name__:
        return []
    return [Entry(operators, item)]
