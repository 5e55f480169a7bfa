"""What the names in a function's source stand for, as far as they are numbers that follow from the inputs' sizes."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxport.capture.rules import Rule, applied, constant
from onnxport.graph.ir import Source

# How many things a name is taken for, where the source alone does not tell which one it is.
MOST_ALTERNATIVES = 4

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"math.{name}": function for name, function in vars(math).items() if callable(function)},
    "int": int,
    "float": float,
    "round": round,
    "abs": abs,
    "min": min,
    "max": max,
    "np.ceil": math.ceil,
    "np.floor": math.floor,
}
# What integers can be asked for.
METHODS = frozenset({"bit_length", "bit_count"})
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class FunctionSource:
    """A function as its file has it."""

    file: str
    name: str
    node: Function

    def statements(self) -> Iterator[ast.stmt]:
        """All statements in the order of the source, without those of functions inside."""
        if isinstance(self.node, ast.Lambda):
            yield ast.copy_location(ast.Return(self.node.body), self.node.body)
        else:
            yield from _statements(self.node.body)

    def defaults(self) -> dict[str, ast.expr]:
        """The parameters' default values by name."""
        given = self.node.args
        named = dict(zip([a.arg for a in given.args[::-1]], given.defaults[::-1], strict=False))
        return named | {a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None}

    def parameters(self) -> list[str]:
        given = self.node.args
        return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def function_at(place: Source) -> FunctionSource | None:
    """The innermost function around a line, of the name that the running code has; None if there is no source."""
    # A comprehension runs as a function of its own, whose name the source does not have.
    inside = place.function.startswith("<") and place.function != "<lambda>"
    found = [
        node
        for node in _functions(place.file)
        if node.lineno <= place.line <= (node.end_lineno or node.lineno)
        and (inside or getattr(node, "name", "<lambda>") == place.function)
    ]
    return FunctionSource(place.file, place.function, found[-1]) if found else None


def _functions(file: str) -> list[Function]:
    tree = tree_of("".join(linecache.getlines(file)))
    return [] if tree is None else _functions_in(tree)


@functools.lru_cache(maxsize=256)
def tree_of(text: str) -> ast.Module | None:
    """The syntax tree of a file's text; None for what is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _functions_in(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, ()))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _statements(part.body)


def expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without those of the statements in it."""
    pending: list[ast.AST] = [statement]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.expr):
                yield child
            elif not isinstance(child, (ast.stmt, ast.excepthandler)):
                pending.append(child)


def dotted(node: ast.AST) -> str:
    """``self.limit`` of an expression of that form, otherwise nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


@dataclass(frozen=True)
class Meaning:
    """What an expression may stand for; ``sized`` if it follows from sizes. Without alternatives it is unknown."""

    alternatives: tuple[Rule, ...] = ()
    sized: bool = False


UNKNOWN = Meaning()


class Scope:
    """What the names of one function stand for, statement by statement.

    ``seeds`` are the numbers that were made from sizes on each line, ``handed`` those that a parameter may be.
    """

    def __init__(
        self,
        function: FunctionSource,
        seeds: Mapping[int, Sequence[Rule]],
        handed: Sequence[Rule],
        attributes: Callable[[str], Sequence[int]],
    ) -> None:
        self.seeds = seeds
        self.attributes = attributes
        self.names: dict[str, Meaning] = {}
        for statement in _constants_around(function):
            self.assign(statement)
        for name, value in function.defaults().items():
            self.names[name] = self.meaning(value)
        if handed:
            unknown = [name for name in function.parameters() if not self.names.get(name, UNKNOWN).alternatives]
            self.names |= dict.fromkeys(unknown, Meaning(tuple(handed[:MOST_ALTERNATIVES]), True))

    def assign(self, statement: ast.stmt) -> None:
        """Take an assignment into account."""
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._assign(target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(statement.target, statement.value)
        elif isinstance(statement, ast.AugAssign):
            changed = ast.BinOp(_loaded(statement.target), statement.op, statement.value)
            self._assign(statement.target, ast.copy_location(changed, statement))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for inner, meaning in zip(target.elts, self._unpacked(value, len(target.elts)), strict=True):
                self.names[dotted(inner)] = meaning
        else:
            self.names[dotted(target)] = self.meaning(value)

    def _unpacked(self, value: ast.expr, count: int) -> list[Meaning]:
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == count:
            return [self.meaning(element) for element in value.elts]
        found = self.seeded(value)
        if len(found.alternatives) == count:
            return [Meaning((rule,), True) for rule in found.alternatives]
        return [found] * count

    def meaning(self, node: ast.expr) -> Meaning:
        """What an expression may stand for."""
        if isinstance(node, ast.Constant):
            number = node.value
            return Meaning((constant(number),)) if isinstance(number, (int, float)) else UNKNOWN
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._named(node)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return self._applied(OPERATORS[type(node.op)], node.left, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._applied(operator.neg, node.operand)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._element(node)
        if isinstance(node, ast.IfExp):
            either = self.meaning(node.body), self.meaning(node.orelse)
            return Meaning(either[0].alternatives + either[1].alternatives, either[0].sized or either[1].sized)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.Tuple, ast.List)):
            return self.seeded(node)
        return UNKNOWN

    def _named(self, node: ast.Name | ast.Attribute) -> Meaning:
        found = self.names.get(dotted(node))
        if found is not None or isinstance(node, ast.Name):
            return found or UNKNOWN
        return Meaning(tuple(constant(number) for number in self.attributes(node.attr)[:MOST_ALTERNATIVES]))

    def _call(self, node: ast.Call) -> Meaning:
        function = FUNCTIONS.get(dotted(node.func))
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and not node.args:
            return self._applied(operator.methodcaller(node.func.attr), node.func.value)
        if function is None or node.keywords:
            return self.seeded(node)
        result = self._applied(function, *node.args)
        if result.alternatives:
            return result
        found = self.seeded(node)
        if function in (min, max):
            return found  # of sizes they are operators of the trace: what became a number is the result
        return Meaning(tuple(applied(function, rule) for rule in found.alternatives), found.sized)

    def _element(self, node: ast.Subscript) -> Meaning:
        """An element of a list of sizes, if the list is known element by element."""
        whole = self.meaning(node.value)
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if whole.sized and isinstance(place, int) and place < len(whole.alternatives):
            return Meaning((whole.alternatives[place],), True)
        return whole if whole.sized else UNKNOWN

    def _applied(self, function: Callable[..., Any], *nodes: ast.expr) -> Meaning:
        given = [self.meaning(node) for node in nodes]
        combined = itertools.islice(itertools.product(*(meaning.alternatives for meaning in given)), MOST_ALTERNATIVES)
        rules = tuple(applied(function, *rules) for rules in combined)
        return Meaning(rules, bool(rules) and any(meaning.sized for meaning in given))

    def seeded(self, node: ast.expr) -> Meaning:
        """The sizes that became numbers on the lines of an expression."""
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        rules = [rule for line in lines for rule in self.seeds.get(line, ())]
        return Meaning(tuple(rules[:MOST_ALTERNATIVES]), bool(rules))


def assignments_around(function: FunctionSource) -> Iterator[ast.Assign]:
    """The assignments at the top of the file and in the functions around one, then its own."""
    tree = tree_of("".join(linecache.getlines(function.file)))
    for holder in [] if tree is None else [tree, *(f for f in _functions_in(tree) if not isinstance(f, ast.Lambda))]:
        if isinstance(holder, ast.Module) or holder.lineno < function.node.lineno <= (holder.end_lineno or 0):
            yield from (statement for statement in holder.body if isinstance(statement, ast.Assign))
    yield from (statement for statement in function.statements() if isinstance(statement, ast.Assign))


def _constants_around(function: FunctionSource) -> Iterator[ast.Assign]:
    """Assignments of plain numbers at the top of the file and in the functions around one."""
    tree = tree_of("".join(linecache.getlines(function.file)))
    around = [] if tree is None else [tree, *(f for f in _functions_in(tree) if not isinstance(f, ast.Lambda))]
    for holder in around:
        if isinstance(holder, ast.Module) or holder.lineno < function.node.lineno <= (holder.end_lineno or 0):
            constants = (s for s in holder.body if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant))
            yield from constants


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target
