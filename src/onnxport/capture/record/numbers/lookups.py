"""Sizes as keys of caches: two axes of equal size are two keys, and what an earlier call left there is not served.

A look-up compares keys as the model compares numbers. Which of both it is, the instruction that is running tells.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from onnxport.capture.record.record import Number
from onnxport.capture.record.source_lines import instruction

# Instructions by which a model compares numbers itself.
COMPARES = frozenset({"COMPARE_OP", "CONTAINS_OP", "MATCH_SEQUENCE"})
# Python 3.11 calls many built-in functions in the instruction before ``CALL``.
CALLS = ("CALL", "PRECALL")
# Instructions that take the next elements of an iterator, which may compare them, as ``itertools.groupby`` does.
ITERATES = frozenset({"FOR_ITER", "LIST_EXTEND", "UNPACK_SEQUENCE", "UNPACK_EX", "SEND"})
# What an object that is a key does itself.
KEY_METHODS = frozenset({"__eq__", "__ne__", "__hash__"})
# Of larger containers no single element is a size that the model treats in its own way.
MOST_KEYS = 16
Method = Callable[[Any, Any], Any]


def as_key(compare: Method, lost: Callable[[str, Number], Any], is_hashed: Callable[[FrameType], bool]) -> Method:
    """``__eq__`` of a number with an expression: ``compare`` where the model compares, else whether keys are one.

    A key is hashed before it is compared, by the same instruction; ``list.index`` and ``itertools.groupby`` hash
    nothing. An object that holds sizes compares them in its own ``__eq__``, for which that holds where it is looked up.
    """

    def is_comparison(frame: FrameType, inner: FrameType) -> bool:
        if frame is not inner:
            return not is_hashed(frame)
        running = instruction(frame.f_code, frame.f_lasti)
        in_method = running.startswith(CALLS) and not _is_cached_call(frame)
        return running in COMPARES or ((in_method or running in ITERATES) and not is_hashed(frame))

    def method(self: Any, other: Any) -> Any:
        inner = sys._getframe(1)
        frame = outside_of_keys(inner)
        if is_comparison(frame, inner):
            return compare(self, other)
        own = self.node.number
        given = other.node.number if hasattr(type(other), "node") and type(other) is not type else other
        if isinstance(given, Number):
            return same(own, given)
        if type(given) not in (int, float, bool) or given != own.value or _is_cached_call(frame):
            return False
        lost("look-up", own)
        return True

    return method


def outside_of_keys(frame: FrameType) -> FrameType:
    """The frame that hashes or compares an object whose own methods do so with what it holds."""
    while frame.f_code.co_name in KEY_METHODS and frame.f_back is not None:
        frame = frame.f_back
    return frame


def same(left: Number, right: Number) -> bool:
    """Whether two numbers were computed in the same way."""
    waiting: list[tuple[Any, Any]] = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        if isinstance(one, Number) and isinstance(other, Number):
            if one is other:
                continue
            if one.op != other.op or one.value != other.value or len(one.operands) != len(other.operands):
                return False
            waiting += zip(one.operands, other.operands, strict=True)
        elif type(one) is not type(other) or one != other:
            return False
    return True


def _is_cached_call(frame: FrameType) -> bool:
    """Whether a function with ``functools.lru_cache`` is being called."""
    expression = _called(frame.f_code, frame.f_lasti)
    if expression is None:
        return False
    found = frame.f_locals.get(expression[0], frame.f_globals.get(expression[0]))
    for name in expression[1:]:
        found = getattr(found, name, None)
    return hasattr(found, "cache_clear")


@functools.lru_cache(maxsize=4096)
def _called(code: CodeType, offset: int) -> tuple[str, ...] | None:
    """The name and attributes of what is called at an instruction, as the source has it."""
    positions = getattr(code, "co_positions", None)
    if positions is None:  # Python 3.10
        return None
    first, last, start, end = list(positions())[offset // 2]
    if first is None or last is None:
        return None
    lines = [linecache.getline(code.co_filename, line) for line in range(first, last + 1)]
    lines[-1] = lines[-1].encode()[:end].decode()
    lines[0] = lines[0].encode()[start:].decode()
    try:
        call = ast.parse("".join(lines).strip(), mode="eval").body
    except SyntaxError:
        return None
    names: list[str] = []
    part: Any = getattr(call, "func", None)
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    return (part.id, *reversed(names)) if isinstance(part, ast.Name) else None


def is_look_up(frame: FrameType) -> bool:
    """Whether a number is hashed to be found in a dict or set of the model's, not in a cache of calls."""
    return not _is_cached_call(frame)


def integers_at_hand(frame: FrameType) -> tuple[int, ...]:
    """The integers in the containers that a function has at hand: keys of dicts, elements of sets."""
    code = frame.f_code
    held: list[Any] = [frame.f_globals.get(name) for name in code.co_names] + list(frame.f_locals.values())
    held += [part for owner in list(held) if hasattr(owner, "__dict__") for part in vars(owner).values()]
    held += code.co_consts
    found: set[int] = set()
    for container in held:
        if type(container) in (dict, set, frozenset) and len(container) <= MOST_KEYS:
            found.update(key for key in container if type(key) is int)
    return tuple(sorted(found))
