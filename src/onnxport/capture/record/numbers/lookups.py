"""Sizes as keys of caches: two axes of equal size are two keys, and what an earlier call left there is not served.

A look-up compares keys as the model compares numbers. Which of both it is, the instruction that is running tells.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import linecache
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, FunctionType, MappingProxyType, ModuleType
from typing import Any

from onnxport.capture.record.record import Number
from onnxport.capture.record.source_lines import IS_USERS, instruction

# Instructions by which a model compares numbers itself.
COMPARES = frozenset({"COMPARE_OP", "CONTAINS_OP", "MATCH_SEQUENCE"})
# Python 3.11 calls many built-in functions in the instruction before ``CALL``.
CALLS = ("CALL", "PRECALL")
# Instructions that take the next elements of an iterator, which may compare them, as ``itertools.groupby`` does.
ITERATES = frozenset({"FOR_ITER", "LIST_EXTEND", "UNPACK_SEQUENCE", "UNPACK_EX", "SEND"})
# What an object that is a key does itself.
KEY_METHODS = frozenset({"__eq__", "__ne__", "__hash__"})
# So many keys of a container are tried: of a larger one those whose values differ, as others tell nothing new.
MOST_KEYS = 16
CONTAINERS = (dict, set, frozenset, MappingProxyType)
# What makes a dict or set in a function, of integers that its code has.
MAKES = frozenset({"BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_SET"})
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


def numbers_at_hand(frame: FrameType, kind: type) -> tuple[int, ...]:
    """The integers, or of the ``kind`` str their texts, in containers at hand: keys of dicts, elements of sets.

    What is at hand of a function are its variables and what they hold, what the names in its code lead to from there,
    and what functions of the user's that it calls may return.
    """
    code = frame.f_code
    held = [*frame.f_locals.values(), *(frame.f_globals.get(name) for name in code.co_names)]
    called = [part for part in held if isinstance(part, FunctionType) and IS_USERS[part.__code__.co_filename]]
    held += (part.__globals__.get(name) for part in called for name in part.__code__.co_names)
    reached = {id(part): part for owner in held for part in (owner, *getattr(owner, "__dict__", {}).values())}
    waiting = list(reached.values())
    while waiting:
        owner = waiting.pop()
        inside = [found for name in code.co_names if (found := _attribute(owner, name)) is not None]
        inside += _containers_in(owner)
        waiting += [part for part in inside if id(part) not in reached]
        reached.update({id(part): part for part in inside})
    keys = {key for made in (code, *(part.__code__ for part in called)) for key in _written_keys(made, kind)}
    for container in (*reached.values(), *code.co_consts):
        if isinstance(container, CONTAINERS):
            keys.update(_telling_keys(container, kind))
    return tuple(sorted(keys))


def _attribute(owner: Any, name: str) -> Any:
    """An attribute as it is held by an object, its class or a module, without running code of theirs."""
    own = getattr(owner, "__dict__", None)
    if own is None or isinstance(owner, ModuleType):
        return None if own is None else own.get(name)
    indices = (own, own.get("_modules") or {}, *(vars(kind) for kind in type(owner).__mro__))
    return next((index[name] for index in indices if name in index), None)


def _containers_in(owner: Any) -> Iterable[Any]:
    """The containers in a container: tables by name, or one after another."""
    parts = dict.values(owner) if isinstance(owner, dict) else owner if type(owner) in (list, tuple) else ()
    return [part for part in itertools.islice(parts, MOST_KEYS) if isinstance(part, CONTAINERS)]


@functools.lru_cache(maxsize=4096)
def _written_keys(code: CodeType, kind: type) -> tuple[int, ...]:
    """The integers in the code of a function, if it makes a dict or set, whose keys may be among them."""
    if MAKES.isdisjoint(dis.opname[operator] for operator in code.co_code[::2]):
        return ()
    parts = [part for const in code.co_consts for part in (const if isinstance(const, tuple) else (const,))]
    return tuple(number for part in parts if (number := _number(part, kind)) is not None)


def _telling_keys(container: Any, kind: type) -> Iterable[int]:
    """The integers among the keys of a container; of many, one for each of the first values, as all of them may be."""
    items = container.items() if isinstance(container, (dict, MappingProxyType)) else ((key, None) for key in container)
    pairs = [(part, value) for key, value in items for part in (key if type(key) is tuple else (key,))]
    pairs = [(number, value) for key, value in pairs if (number := _number(key, kind)) is not None]
    if len(pairs) <= MOST_KEYS:
        return [key for key, _ in pairs]
    found: dict[Any, int] = {}
    for key, value in pairs:
        found.setdefault((type(value), value) if isinstance(value, (int, float, str)) else id(value), key)
        if len(found) == MOST_KEYS:
            break
    return found.values()


def _number(key: Any, kind: type) -> int | None:
    """The integer that a key is, or that it is the text of."""
    if kind is int:
        return key if type(key) is int else None
    return int(key) if type(key) is str and key.isascii() and key.removeprefix("-").isdigit() else None
