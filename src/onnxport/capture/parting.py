"""Where the traces of a model part: the lines, the sizes, and the condition or loop in the source that decides."""

from __future__ import annotations

import ast
import itertools
import linecache
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from onnxport.capture.names import Function, function_at
from onnxport.capture.reader import Record, Trace
from onnxport.capture.sizes import Sizes
from onnxport.errors import DynamicAxisError
from onnxport.graph.ir import Source

LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
CONDITIONS = (ast.If, ast.IfExp, ast.Assert)
Deciding = ast.stmt | ast.expr


def parting(traces: Sequence[Trace], points: Sequence[Sizes]) -> DynamicAxisError:
    """The error for traces that do not do the same: the first place where they differ."""
    place, other = _first_difference(traces)
    ranks = _other_ranks([traces[index] for index in (0, other)], place, [_sizes(points, i) for i in (0, other)])
    if ranks is not None:
        return ranks
    sides = [_stack(traces[0], place), _stack(traces[other], place)]
    # A trace that has come to its end has no line there.
    sides = [side or next(filter(None, sides), ()) for side in sides]
    where = [f"{_sizes(points, index)}: {_shown(traces[index], place)}" for index in (0, other)]
    found = _deciding(sides)
    at = str(sides[0][0]) if sides[0] else "the model"
    if found is None:
        return DynamicAxisError(
            f"{at}: the model takes another path at another size of its dynamic axes ({'; '.join(where)}). "
            "Write the size-dependent part without a Python condition, give the axis a range in which it does not turn "
            '(dynamic_shapes with torch.export.Dim("n", min=..., max=...)), or leave the axis static.'
        )
    node, source = found
    line = f"{source.file}:{node.lineno}"
    if isinstance(node, LOOPS):
        return DynamicAxisError(
            f"{line}: this loop runs another number of times at another size of a dynamic axis, and tracing unrolls it "
            f"({'; '.join(where)}):\n{_text(node, source, whole=False)}\n"
            "Write it as one tensor operation, or move it to a scripted function, which keeps the loop:\n"
            f"{_scripted(node, source)}"
        )
    return DynamicAxisError(
        f"{line}: the model takes another path at another size of its dynamic axes ({'; '.join(where)}). "
        f"This decides:\n{_text(node, source, whole=False)}\n"
        "Write it without a Python condition (torch.where, clamp), move it to a @torch.jit.script function, which "
        "keeps conditions, give the axis a range in which it does not turn "
        '(dynamic_shapes with torch.export.Dim("n", min=..., max=...)), or leave the axis static.'
    )


def rewiring(row: Sequence[Record], points: Sequence[Sizes], other: int) -> DynamicAxisError:
    """The error for traces that do the same, but not with the same values."""
    lines = dict.fromkeys(f"{_sizes(points, index)}: {row[index].source or 'the model'}" for index in (0, other))
    return DynamicAxisError(
        f"{row[0].source or 'the model'}: {row[0].kind} is given another value at another size of the dynamic axes "
        f"({'; '.join(lines)}). Write the size-dependent part without a Python condition, or leave the axis static."
    )


def _first_difference(traces: Sequence[Trace]) -> tuple[int, int]:
    """The first place at which some trace does something else than the first one, and which."""
    first = traces[0].records
    best: tuple[int, int] | None = None
    for index, trace in enumerate(traces[1:], start=1):
        pairs = zip(first, trace.records, strict=False)
        place = next((place for place, pair in enumerate(pairs) if _kind(pair[0]) != _kind(pair[1])), None)
        if place is None and len(trace.records) != len(first):
            place = min(len(first), len(trace.records))
        if place is not None and (best is None or place < best[0]):
            best = (place, index)
    assert best is not None, "traces that part differ somewhere"
    return best


def _other_ranks(traces: Sequence[Trace], place: int, sizes: Sequence[str]) -> DynamicAxisError | None:
    """The error for an operator that drops an axis of size 1 at one size and not at another."""
    records = [trace.records[place] for trace in traces if place < len(trace.records)]
    if len(records) < 2 or _kind(records[0])[:-1] != _kind(records[1])[:-1]:
        return None
    if len(records[0].types) != len(records[1].types):
        return None  # a list of another length
    counts = [kind[-1][0] if (kind := _kind(record)) and kind[-1] else 0 for record in records]
    # Without a name squeeze drops whatever is 1.
    unnamed = records[0].kind.startswith("aten::squeeze") and not records[0].overload
    named = "Name the dimensions to drop, as in squeeze(-1)" if unnamed else "Leave the axis static"
    return DynamicAxisError(
        f"{records[0].source or 'the model'}: {records[0].kind} gives a tensor of {counts[0]} dimensions {sizes[0]}, "
        f"of {counts[1]} {sizes[1]}: the file can have one of them only. {named}, or give the axis a range without "
        'that size (dynamic_shapes with torch.export.Dim("n", min=2)).'
    )


def _kind(record: Record) -> tuple[Any, ...]:
    ranks = [len(kind[1] or ()) if isinstance(kind, tuple) else kind for kind in record.types]
    return record.kind, record.overload, len(record.inputs), ranks


def _sizes(points: Sequence[Sizes], index: int) -> str:
    if index >= len(points):
        return "at another size"
    return "at " + ", ".join(f"{label}={length}" for label, length in points[index].items())


def _shown(trace: Trace, place: int) -> str:
    stack = _stack(trace, place)
    if place >= len(trace.records):
        return "it ends"
    kind = trace.records[place].kind
    where = str(stack[0]) if stack else "the model"
    return f"{kind} in {where}" if kind.startswith("aten::") else where


def _stack(trace: Trace, place: int) -> tuple[Source, ...]:
    """The user's lines that were running at a place, the innermost first; those nearby where torch alone is known."""
    nearby = itertools.chain(trace.records[place:], reversed(trace.records[:place]))
    stacks = (record.stack for record in nearby)
    return next((stack for stack in stacks if stack), ())


def _deciding(sides: Sequence[tuple[Source, ...]]) -> tuple[Deciding, Source] | None:
    """The condition or loop that makes two stacks differ, in the outermost function in which they do."""
    common: tuple[Source, Source] | None = None
    for one, other in zip(reversed(sides[0]), reversed(sides[1]), strict=False):
        function = function_at(one)
        if one.file != other.file or function is None or function_at(other) != function:
            break
        common = one, other
        if one.line != other.line:
            break
    if common is None:
        return None
    function = function_at(common[0])
    node = None if function is None else _between(function.node, common[0].line, common[1].line)
    return None if node is None else (node, common[0])


def _between(function: Function, left: int, right: int) -> Deciding | None:
    """The innermost condition or loop that holds one of two lines, or else both; or else the last one before."""
    nodes = [node for node in ast.walk(function) if isinstance(node, (*LOOPS, *CONDITIONS))]
    apart = [node for node in nodes if any((left in body) != (right in body) for body in _bodies(node))]
    around = [node for node in nodes if {left, right} <= set(_span(node))]
    before = [node for node in nodes if isinstance(node, CONDITIONS) and (node.end_lineno or 0) <= min(left, right)]
    for found in (apart, around):
        if found:
            return min(found, key=lambda node: (len(_span(node)), -node.lineno))
    return max(before, key=lambda node: node.lineno, default=None)


def _bodies(node: Deciding) -> Iterator[range]:
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body:
            yield range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
        elif isinstance(body, ast.expr):
            yield _span(body)


def _span(node: Deciding) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _text(node: Deciding, source: Source, *, whole: bool) -> str:
    """The lines of a statement, or its head alone."""
    last = node.end_lineno or node.lineno
    body = getattr(node, "body", None)
    if not whole and isinstance(body, list) and body:
        last = max(node.lineno, body[0].lineno - 1)
    lines = linecache.getlines(source.file)[node.lineno - 1 : last]
    return textwrap.indent(textwrap.dedent("".join(lines)).rstrip(), "    ")


def _scripted(node: Deciding, source: Source) -> str:
    """How the loop would look as a scripted function, as far as the source shows it."""
    inner = list(ast.walk(node))
    names = [name for name in inner if isinstance(name, ast.Name)]
    written = dict.fromkeys(name.id for name in names if isinstance(name.ctx, ast.Store))
    called = {call.func.id for call in inner if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    modules = {a.value.id for a in inner if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name)} & MODULES
    counted = ast.walk(node.target) if isinstance(node, ast.For) else ()
    targets = {name.id for name in counted if isinstance(name, ast.Name)}
    read = [name.id for name in names if isinstance(name.ctx, ast.Load)]
    taken = [name for name in dict.fromkeys(read) if name not in called | modules | targets]
    given = [name for name in written if name not in targets]
    if isinstance(node, ast.expr) or not given:
        return "    @torch.jit.script\n    def steps(x: torch.Tensor) -> torch.Tensor:\n        ...  # the loop"
    body = textwrap.indent(_text(node, source, whole=True), "    ")
    head = f"    @torch.jit.script\n    def steps({', '.join(taken)}):\n"
    return f"{head}{body}\n        return {', '.join(given)}"


MODULES = {"torch", "F", "nn", "math", "np", "numpy"}
