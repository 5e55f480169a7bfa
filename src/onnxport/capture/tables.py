"""Tables of Python's that a model looks sizes up in: what is found at sizes that were not traced."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from torch import nn

from onnxport.capture.names import Meaning, Scope, dotted
from onnxport.capture.rules import Rule, applied

Table: TypeAlias = "Mapping[Any, Any] | Sequence[Any] | set[Any] | frozenset[Any]"
KINDS = (dict, list, tuple, set, frozenset)
# Stands for what is not in a table.
MISSING = -1


def lookups(node: ast.AST, scope: Scope, tables: Callable[[ast.expr], Table | None]) -> Iterator[tuple[Rule, int]]:
    """For each table that an expression looks a size up in: which of its entries is found there, and on which line."""
    for holder, key in _looked_up(node):
        table = tables(holder)
        meaning = _key(scope, key) if table is not None else None
        if table is not None and meaning is not None and meaning.sized:
            yield from ((applied(_place(table), rule), key.lineno) for rule in meaning.alternatives)


def elements(node: ast.AST, scope: Scope, tables: Callable[[ast.expr], Table | None]) -> Iterator[Rule]:
    """The numbers that such an expression comes to."""
    for holder, key in _looked_up(node):
        table = tables(holder)
        if isinstance(table, (dict, list, tuple)) and not isinstance(node, ast.Compare):
            default = _default(node) if isinstance(node, ast.Call) else None
            meaning = _key(scope, key)
            if meaning.sized:
                yield from (applied(_element(table, default), rule) for rule in meaning.alternatives)


def _looked_up(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The table and the key of ``table[key]``, ``table.get(key)`` and ``key in table``."""
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        yield node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        yield node.func.value, node.args[0]
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        yield node.comparators[0], node.left


def _key(scope: Scope, key: ast.expr) -> Meaning:
    found = scope.meaning(key)
    return found if found.alternatives else scope.seeded(key)


def _place(table: Table) -> Callable[[Any], int]:
    """Which entry is found, where equal numbers are one entry; a set has one for all."""
    places: dict[Any, int] = {}
    items = table.items() if isinstance(table, Mapping) else enumerate(table)
    if isinstance(table, (set, frozenset)):
        entries = dict.fromkeys(table, 0)
    else:
        values = {key: value if isinstance(value, (int, float, str)) else id(value) for key, value in items}
        entries = {key: places.setdefault(value, len(places)) for key, value in values.items()}
    length = len(table)
    return lambda key: entries.get(key + length if isinstance(table, (list, tuple)) and key < 0 else key, MISSING)


def _element(table: dict[Any, Any] | Sequence[Any], default: Any) -> Callable[[Any], Any]:
    if isinstance(table, dict):
        return lambda key: table.get(key, default)
    return lambda key: table[key] if -len(table) <= key < len(table) else None


def _default(call: ast.Call) -> Any:
    given = call.args[1] if len(call.args) > 1 else None
    return given.value if isinstance(given, ast.Constant) else None


class Tables:
    """The tables that the names of one function stand for: written out in the source, held by its module or by those
    of the model."""

    def __init__(self, file: str, assigned: Iterable[ast.stmt], held: Callable[[str], Sequence[Any]]) -> None:
        self._held = held
        modules = (vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType))
        self._globals = next((names for names in modules if names.get("__file__") == file), {})
        self._written = {
            dotted(target): statement.value
            for statement in assigned
            if isinstance(statement, ast.Assign)
            for target in statement.targets
        }

    def __call__(self, node: ast.expr) -> Table | None:
        name = dotted(node)
        written = self._written.get(name, node)
        if isinstance(written, (ast.Dict, ast.List, ast.Tuple, ast.Set)):
            try:
                literal: Table = ast.literal_eval(written)
            except (ValueError, TypeError):
                return None
            return literal
        found = [self._globals.get(name)] if isinstance(node, ast.Name) else self._attributes(node)
        return next((table for table in found if isinstance(table, KINDS)), None)

    def _attributes(self, node: ast.expr) -> Sequence[Any]:
        return self._held(node.attr) if isinstance(node, ast.Attribute) else ()


def tables_named(name: str, modules: Iterable[nn.Module]) -> list[Any]:
    """The tables that modules, or their classes, have under a name."""
    return [table for module in modules if isinstance(table := _plain(module, name), KINDS)]


def _plain(module: nn.Module, name: str) -> Any:
    return vars(module).get(name, getattr(type(module), name, None))
