"""Functions and types of Python that keep the expression of a number, in the modules of a model that need them.

CPython drops an expression where it converts a number itself (``int(n)``, ``len(x)``, ``math.sqrt(n)``), and
``min(n, 4)`` is a comparison to it. In modules where that happened, these names stand for functions that follow
numbers, and do what the built-in ones do with everything else. A type is replaced only where the module uses its name
for nothing but conversions and checks. The built-in names themselves stay: torch's compiler knows functions by their
identity.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import itertools
import linecache
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from onnxport.capture.record.handlers import handles_errors
from onnxport.capture.record.numbers.carriers import CARRIERS, carried, number_of
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import Number
from onnxport.compat import patches


class _Conversion(type):
    """A class that is a built-in type but for its calls."""

    plain: type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and STATE.listener is not None:
            number = args[0]
            if isinstance(number, torch.Tensor) and number.numel() == 1 and not number.is_complex():
                number = number.item()
                if type(number) is bool:
                    return cls.plain(number)
            if type(number) in CARRIERS:
                return math.trunc(number) if cls.plain is int else number * 1.0
        return cls.plain(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.plain)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.plain

    def __hash__(cls) -> int:
        return hash(cls.plain)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.plain, name)


class _Int(metaclass=_Conversion):
    plain = int
    dtype = np.dtype(int)  # numpy asks for it


class _Float(metaclass=_Conversion):
    plain = float
    dtype = np.dtype(float)


class _RangeList(list[Any]):
    """The numbers of a range that has numbers with expressions as bounds."""

    def __init__(self, bounds: tuple[Any, ...]) -> None:
        super().__init__(carried(number, "place") for number in range(*map(operator.index, bounds)))
        self.bounds = bounds


def _start_stop_step(bounds: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    start, stop, step = (*((0, *bounds) if len(bounds) == 1 else bounds), 1)[:3]
    return start, stop, step


def _length_of_range(bounds: tuple[Any, ...]) -> Any:
    return BUILTINS["max"](_iterations(bounds), 0)


def _iterations(bounds: tuple[Any, ...]) -> Any:
    """How many numbers a range has; a negative number stands for none."""
    start, stop, step = _start_stop_step(bounds)
    low, high = (start, stop) if step > 0 else (stop, start)
    span = high if type(low) is int and low == 0 else high - low
    return span if abs(step) == 1 else -(-span // abs(step))


class _DataRange:
    """A range whose length data decide: a loop over it asks before each iteration whether there is another one."""

    def __init__(self, bounds: tuple[Any, ...]) -> None:
        self.bounds = bounds

    def __iter__(self) -> Iterator[Any]:
        start, _, step = _start_stop_step(self.bounds)
        is_index = type(start) is int and (start, step) == (0, 1)
        length = number_of(_iterations(self.bounds))
        for iteration in itertools.count():
            index = carried(iteration, "place")
            if STATE.listener is None or not STATE.listener.note_iteration(number_of(index), length):
                return
            yield index if is_index else start + index * step

    def __reversed__(self) -> Iterator[Any]:
        return reversed(_RangeList(self.bounds))

    def __len__(self) -> int:
        return len(_RangeList(self.bounds))

    def __getitem__(self, index: Any) -> Any:
        return _RangeList(self.bounds)[index]


class _Counting(_Conversion):
    """The same of what counts the iterations of a loop: the numbers of the iterations tell what is done with them."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if STATE.listener is None:
            return cls.plain(*args, **kwargs)
        if cls.plain is range and any(type(number) in CARRIERS for number in args):
            STATE.counts = True
            is_counted_by_data = type(_start_stop_step(args)[2]) is int and STATE.listener.follows_data(
                *map(number_of, args)
            )
            return _DataRange(args) if is_counted_by_data else _RangeList(args)
        if cls.plain is enumerate and isinstance(args[0], torch.Tensor):
            STATE.counts = True
            return [(carried(number, "place"), part) for number, part in enumerate(*args, **kwargs)]
        return cls.plain(*args, **kwargs)


class _Range(metaclass=_Counting):
    plain = range


class _Enumerate(metaclass=_Counting):
    plain = enumerate


CONVERSIONS: dict[str, Any] = {"int": _Int, "float": _Float, "range": _Range, "enumerate": _Enumerate}


def _length(of: Any) -> Any:
    if isinstance(of, (_RangeList, _DataRange)):
        return _length_of_range(of.bounds)
    return of.shape[0] if isinstance(of, torch.Tensor) and of.dim() else NotImplemented


def _extreme(name: str) -> Callable[..., Any]:
    compute = getattr(builtins, name)

    def instead(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if len(args) == 1 and type(args[0]) in (list, tuple, torch.Size, _RangeList) else args
        if kwargs or not any(type(part) in CARRIERS for part in given):
            return NotImplemented
        if len(given) == 1:
            return given[0]
        numbers = [number_of(part) for part in given]
        values = [number.value if number is not part else part for number, part in zip(numbers, given, strict=True)]
        if not all(type(value) in (int, float) for value in values):
            return NotImplemented
        value, number = values[0], numbers[0]
        for other, other_number in zip(values[1:], numbers[1:], strict=True):
            value = compute(value, other)
            number = Number(value, name, (number, other_number))
        return carried(value, name, *number.operands) if isinstance(number, Number) else NotImplemented

    return instead


def _of_one(name: str) -> Callable[..., Any]:
    compute = getattr(math, name)
    op = {"fabs": "abs"}.get(name, name)

    def instead(*args: Any) -> Any:
        if len(args) != 1 or type(args[0]) not in CARRIERS:
            return NotImplemented
        number = number_of(args[0])
        _note_domain(name, number)
        return carried(compute(number.value), op, number)

    return instead


# What functions take is greater than 0, or no less.
DOMAINS = {"sqrt": "ge", "isqrt": "ge", "log": "gt", "log2": "gt", "log10": "gt"}


def _note_domain(name: str, number: Number) -> None:
    """Where the model handles that a function does not take a number, it is a condition whether it does."""
    listener = STATE.listener
    if listener is not None and name in DOMAINS and handles_errors(sys._getframe(3), (ValueError,)):
        compare = DOMAINS[name]
        listener.note_condition(compare, number, 0, getattr(operator, compare)(number.value, 0))


def _power(base: Any, exponent: Any) -> Any:
    return (base * 1.0) ** exponent if type(base) in CARRIERS or type(exponent) in CARRIERS else NotImplemented


def _logarithm(*args: Any) -> Any:
    if len(args) == 1 or not any(type(part) in CARRIERS for part in args):
        return _of_one("log")(*args)
    number, base = (MATH["log"](part) for part in args)
    return number / base


def _following(original: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        result = NotImplemented if STATE.listener is None else instead(*args, **kwargs)
        return original(*args, **kwargs) if result is NotImplemented else result

    return function


BUILTINS: dict[str, Any] = {
    "len": _following(len, _length),
    "min": _following(min, _extreme("min")),
    "max": _following(max, _extreme("max")),
}
ONE = ("sqrt", "isqrt", "log2", "log10", "exp", "sin", "cos", "fabs")
MATH: dict[str, Any] = {name: _following(getattr(math, name), _of_one(name)) for name in ONE}
MATH |= {"pow": _following(math.pow, _power), "log": _following(math.log, _logarithm)}
# The module ``math``, and its functions where a model has imported them by name.
FOLLOWING_MATH = SimpleNamespace(**{**vars(math), **MATH})
IMPORTED: dict[int, Any] = {id(math): FOLLOWING_MATH, **{id(getattr(math, name)): f for name, f in MATH.items()}}
IMPORTED |= {id(instead): instead for instead in IMPORTED.values()}


@contextlib.contextmanager
def followed_in(modules: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Numbers are followed through these functions in these modules, which are given by their names."""
    with contextlib.ExitStack() as stack:
        for names in {id(module): module for module in modules}.values():
            for name, value in _replacements(names).items():
                stack.enter_context(patches.injected(names, name, value))
        yield


def _replacements(names: dict[str, Any]) -> dict[str, Any]:
    """What stands for something in a module; another export, in another thread, may have put it there already."""
    allowed = [convertible(file) for file in _files(names)]
    types = [name for name in CONVERSIONS if allowed and all(name in of_file for of_file in allowed)]
    hiding = {**{name: CONVERSIONS[name] for name in types}, **BUILTINS}
    found = {name: instead for name, instead in hiding.items() if names.get(name, instead) is instead}
    return found | {name: IMPORTED[id(value)] for name, value in list(names.items()) if id(value) in IMPORTED}


def _files(names: dict[str, Any]) -> set[str]:
    """The files of a module. One without a file, as that of a notebook, has those of its functions."""
    if "__file__" in names:
        return {str(names["__file__"])}
    kinds = [kind for kind in names.values() if isinstance(kind, type) and kind.__module__ == names.get("__name__")]
    held = [*names.values(), *(method for kind in kinds for method in vars(kind).values())]
    return {function.__code__.co_filename for function in held if isinstance(function, FunctionType)}


@functools.cache
def convertible(file: str) -> tuple[str, ...]:
    """The names of built-in types that a file uses only to convert numbers and to check types."""
    source = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    if not source:
        return ()
    inner = [node for function in _functions(tree) for node in ast.walk(function)]
    allowed = {id(name) for node in ast.walk(tree) for name in _allowed(node)}
    used = [node for node in inner if isinstance(node, ast.Name) and node.id in CONVERSIONS]
    return tuple(name for name in CONVERSIONS if all(id(node) in allowed for node in used if node.id == name))


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    """The bodies of functions: what stands outside of them ran when the module was imported."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from node.body
        elif isinstance(node, ast.Lambda):
            yield node.body


def _allowed(node: ast.AST) -> Iterator[ast.AST]:
    """The names under a node that are called, checked against, mapped, parts of types, dtypes, or annotations."""
    if isinstance(node, ast.Subscript):
        yield from node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from (node.left, node.right)
    if isinstance(node, ast.Call):
        yield node.func
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            yield from node.args
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass", "map"):
            for argument in node.args:
                yield from ast.walk(argument)
    for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        if isinstance(annotation, ast.AST):
            yield from ast.walk(annotation)
