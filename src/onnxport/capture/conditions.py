"""Conditions on sizes: those that the trace shows, and those that Python decides out of its sight.

Once a size is a Python number (``n = int(x.shape[0])``) nobody sees what it is compared with. The source does: from the
lines where sizes became numbers, their names are followed through assignments to comparisons, ``min``, ``max`` and
divisions.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from onnxport.capture.frozen import FrozenValue
from onnxport.capture.names import UNKNOWN, FunctionSource, Scope, assignments_around, expressions, function_at
from onnxport.capture.rules import Rule, constant
from onnxport.capture.tables import Tables, elements, lookups
from onnxport.graph.dims import Dim, size
from onnxport.graph.doubts import COMPARED, RELATIONS, Doubt
from onnxport.graph.ir import Source

OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal", ast.NotEq: "equal", ast.In: "equal", ast.NotIn: "equal", ast.Gt: "above", ast.LtE: "above",
    ast.Lt: "at least", ast.GtE: "at least",
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A relation of two numbers that follow from the inputs' sizes, with the line where the model depends on it."""

    relation: str
    left: Rule
    right: Rule
    source: Source

    def outcome(self, shapes: Sequence[Sequence[int]]) -> int | None:
        """What the relation comes to at these shapes; None where that is not known."""
        left, right = self.left(shapes), self.right(shapes)
        if left is None or right is None or (self.relation == "multiple" and not right):
            return None
        return int(RELATIONS[self.relation](left, right))  # type: ignore[arg-type]

    def is_equal(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether both sides are the same there, so that it may make no difference how the condition turns."""
        return self.relation in ("above", "at least") and self.left(shapes) == self.right(shapes)

    def missing(self, seen: Sequence[Sequence[Sequence[int]]]) -> Callable[[int | None], bool] | None:
        """Which outcomes a further point should have, given the shapes tried; None if those tell enough."""
        outcomes = {self.outcome(shapes) for shapes in seen}
        if len(outcomes) > 1 or None in outcomes:
            return None
        (only,) = outcomes
        if self.relation == "order":
            return (lambda outcome: outcome == -only) if only else None
        return lambda outcome: outcome is not None and outcome != only


def traced_conditions(runs: Sequence[Sequence[FrozenValue]]) -> Iterator[Doubt | Condition]:
    """The conditions on sizes that Python decided in the same place of every run, from the numbers compared."""
    for row in zip(*runs, strict=False):
        compared = [value.compared for value in row if value.compared is not None]
        places = {(value.source, value.compared and value.compared.name) for value in row}
        if len(compared) < len(row) or len(places) > 1:
            continue
        relation, source = COMPARED[compared[0].name], row[0].source
        if source is not None:
            yield Condition(relation, compared[0].left_rule, compared[0].right_rule, source)
        left, right = size(c.left for c in compared), size(c.right for c in compared)
        if isinstance(left, Dim) or isinstance(right, Dim):
            yield Doubt(left, right, relation, source)


def read_numbers(values: Sequence[FrozenValue], shapes: Sequence[Sequence[Sequence[int]]]) -> Iterator[Condition]:
    """What sizes are that Python read as numbers, as far as that is another at some of these shapes: where it was the
    same in each run, as ``min(n, 2)`` is, nobody knows what another would do."""
    distinct = {(value.source, value.value): value for value in values if value.rule is not None}
    for value in distinct.values():
        if value.source is not None and value.rule is not None and len({value.rule(at) for at in shapes}) > 1:
            yield Condition("entry", value.rule, constant(0), value.source)


@dataclass(frozen=True)
class SizeSource:
    """The functions of the user's in which sizes are Python numbers.

    These are the ones where ``values`` say that a size became a number, and those ``used`` by the model, which may have
    been handed one. ``attributes`` gives the numbers that objects of the model have under a name, ``tables`` the lists
    and dicts.
    """

    values: Sequence[FrozenValue]
    used: Callable[[], Iterable[Source]]
    attributes: Callable[[str], Sequence[int]]
    tables: Callable[[str], Sequence[Any]]

    def conditions(self) -> Iterator[Condition]:
        """What numbers that were made from sizes are compared with."""
        return (
            condition
            for function, scope in self._scopes()
            for condition in _conditions(function, scope, self._tables(function))
        )

    def numbers(self) -> Iterator[Rule]:
        """What the expressions made of such numbers come to."""
        return (
            rule for function, scope in self._scopes() for rule in _numbers(function, scope, self._tables(function))
        )

    def _tables(self, function: FunctionSource) -> Tables:
        return Tables(function.file, assignments_around(function), self.tables)

    def _scopes(self) -> Iterator[tuple[FunctionSource, Scope]]:
        converted = {(value.stack, value.value): value.rule for value in self.values if value.rule is not None}
        seeds: dict[Source, list[Rule]] = {}
        for (stack, _), rule in converted.items():
            for place in stack:
                seeds.setdefault(place, []).append(rule)
        functions: dict[FunctionSource, dict[int, list[Rule]]] = {}
        for place in dict.fromkeys((*seeds, *self.used())) if converted else ():
            function = function_at(place)
            if function is not None:
                functions.setdefault(function, {})[place.line] = seeds.get(place, [])
        for function, lines in functions.items():
            own = {line: found for line, found in lines.items() if found}
            # A function in which no size became a number may have been handed some.
            handed = [] if own else list(converted.values())
            yield function, Scope(function, own, handed, self.attributes)


def _numbers(function: FunctionSource, scope: Scope, tables: Tables) -> Iterator[Rule]:
    for statement in function.statements():
        for expression in expressions(statement):
            for node in ast.walk(expression):
                yield from elements(node, scope, tables)
                meaning = scope.meaning(node) if isinstance(node, (ast.BinOp, ast.Call, ast.IfExp)) else UNKNOWN
                if meaning.sized:
                    yield from meaning.alternatives
        scope.assign(statement)


def _conditions(function: FunctionSource, scope: Scope, tables: Tables) -> Iterator[Condition]:
    for statement in function.statements():
        for expression in expressions(statement):
            for node in ast.walk(expression):
                for entry, line in lookups(node, scope, tables):
                    yield Condition("entry", entry, constant(0), Source(function.file, line, function.name))
                for relation, left, right in _relations(node):
                    source = Source(function.file, left.lineno, function.name)
                    yield from _related(scope, relation, left, right, source)
        if isinstance(statement, (ast.If, ast.While, ast.Assert)):
            for test in _plain_tests(statement.test):
                source = Source(function.file, test.lineno, function.name)
                yield from _related(scope, "equal", test, ast.copy_location(ast.Constant(0), test), source)
        for subject, value in _matched(statement):
            source = Source(function.file, value.lineno, function.name)
            yield from _related(scope, "equal", subject, value, source)
        scope.assign(statement)


def _matched(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What the cases of a match compare its subject with."""
    if isinstance(statement, ast.Match):
        for case in statement.cases:
            for pattern in ast.walk(case.pattern):
                if isinstance(pattern, ast.MatchValue):
                    yield statement.subject, pattern.value


def _related(scope: Scope, relation: str, left: ast.expr, right: ast.expr, source: Source) -> Iterator[Condition]:
    sides = scope.meaning(left), scope.meaning(right)
    if any(side.sized for side in sides):
        for left_rule, right_rule in itertools.product(sides[0].alternatives, sides[1].alternatives):
            yield Condition(relation, left_rule, right_rule, source)


def _relations(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """The pairs of expressions on whose relation an expression depends."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, compared, right in zip(sides, node.ops, sides[1:], strict=False):
            for option in right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]:
                if type(compared) in OPERATORS:
                    yield OPERATORS[type(compared)], left, option
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        yield from (("order", node.args[0], other) for other in node.args[1:])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv, ast.Div)):
        yield "multiple" if isinstance(node.op, ast.Mod) else "quotient", node.left, node.right


def _plain_tests(test: ast.expr) -> Iterator[ast.expr]:
    """The numbers that a test takes for true or false."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _plain_tests(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _plain_tests(test.operand)
    elif isinstance(test, (ast.Name, ast.Attribute, ast.BinOp)):
        yield test


def integers_named(name: str, modules: Iterable[nn.Module]) -> list[int]:
    """The integers that the modules, or what they hold such as a configuration, have under a name."""
    found: dict[int, None] = {}
    for module in modules:
        holders = [module, *(held for held in vars(module).values() if hasattr(held, "__dict__"))]
        for holder in holders:
            value = vars(holder).get(name)
            if type(value) is int:
                found[value] = None
    return list(found)
