"""How the loop of Python code around a line can end, as its source tells."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator

from onnxport.graph.ir import Source


def has_one_end(source: Source | None) -> bool:
    """Whether the ``while`` around a line ends by one condition alone. Any ``for`` ends when its iterator does."""
    loop = None if source is None else _innermost(source.file, source.line)
    if not isinstance(loop, ast.While):
        return False
    tests = loop.test.values if isinstance(loop.test, ast.BoolOp) else [loop.test]
    tests = [test for test in tests if not isinstance(test, ast.Constant)]
    return len(tests) + sum(1 for _ in _leaving(loop.body)) == 1


def is_end(source: Source | None) -> bool:
    """Whether a condition on a line, or the length of a range there, decides when the loop around it ends."""
    loop = None if source is None else _innermost(source.file, source.line)
    if loop is None or source is None:
        return False
    tests: list[ast.expr] = [loop.test if isinstance(loop, ast.While) else loop.iter]
    tests += [node.test for node in ast.walk(loop) if isinstance(node, ast.If) and any(_leaving([node]))]
    return any(test.lineno <= source.line <= (test.end_lineno or test.lineno) for test in tests)


@functools.lru_cache(maxsize=256)
def _innermost(file: str, line: int) -> ast.For | ast.While | None:
    """The innermost loop around a line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    around = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While)) and _holds(node, line)]
    return max(around, key=lambda node: node.lineno, default=None)


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _leaving(body: list[ast.stmt], *, nested: bool = False) -> Iterator[ast.stmt]:
    """The statements that leave a loop: ``return``, and ``break`` outside of loops in it."""
    for statement in body:
        if isinstance(statement, ast.Return) or (isinstance(statement, ast.Break) and not nested):
            yield statement
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue
        is_loop = isinstance(statement, (ast.For, ast.While))
        for name in ("body", "orelse", "handlers", "finalbody"):
            parts = getattr(statement, name, [])
            inner = nested or (is_loop and name == "body")
            yield from _leaving(
                [p for part in parts for p in (part.body if name == "handlers" else [part])], nested=inner
            )
