"""Users' converters: an overlay over the frozen registry. Each export takes a snapshot of it."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.errors import OptionError, OptionTypeError
from onnxport.graph.ir import Node, PythonCall
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, Registry
from onnxport.report.tracebacks import public
from onnxport.symbolic.calling import call_classic, call_modern
from onnxport.symbolic.function_symbolic import call_function

NAME = re.compile(r"^[\w.-]+::[A-Za-z_-][\w-]*(\.\w+)?$")
PYTHON_OP = "prim::PythonOp"

Caller = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Registration:
    """A user's function and the first opset that it is for."""

    function: Callable[..., Any]
    since: int
    call: Caller


class Overlay:
    """Registrations by operator, the latest last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registered: dict[str, tuple[Registration, ...]] = {}

    def add(self, name: str, registration: Registration) -> None:
        with self._lock:
            self._registered[name] = (*self._registered.get(name, ()), registration)

    def remove(self, name: str, registration: Registration) -> None:
        with self._lock:
            self._keep(name, [other for other in self._registered.get(name, ()) if other is not registration])

    def remove_latest(self, name: str, since: int) -> None:
        """Remove the last registration for an operator at an opset; the one before is valid again."""
        with self._lock:
            found = list(self._registered.get(name, ()))
            latest = next((r for r in reversed(found) if r.since == since and r.call is call_classic), None)
            self._keep(name, [other for other in found if other is not latest])

    def _keep(self, name: str, kept: list[Registration]) -> None:
        if kept:
            self._registered[name] = tuple(kept)
        else:
            self._registered.pop(name, None)

    def snapshot(self, opset: int) -> dict[str, Registration]:
        """For each operator the newest registration that is not above the target opset."""
        with self._lock:
            registered = dict(self._registered)
        chosen = _assigned(opset)
        for name, candidates in registered.items():
            fitting = [candidate for candidate in candidates if candidate.since <= opset]
            if fitting:
                newest = max(candidate.since for candidate in fitting)
                chosen[name] = next(c for c in reversed(fitting) if c.since == newest)
        return chosen


def _assigned(opset: int) -> dict[str, Registration]:
    """The functions that a user has put into the ``symbolic_opset`` modules, the newest that is not above an opset."""
    found: dict[str, Registration] = {}
    for version in range(opset + 1):
        module = sys.modules.get(f"{__package__.partition('.')[0]}.symbolic_opset{version}")
        for name, function in list(vars(module).items()) if module is not None else ():
            if not name.startswith("__") and callable(function) and hasattr(torch.ops.aten, name):
                found[f"aten::{name}"] = Registration(function, version, call_classic)
    return found


class Layered:
    """The converters of one export: the user's before the built-in ones."""

    def __init__(self, base: Registry, overlay: Mapping[str, Registration]) -> None:
        self._base = base
        self._overlay = overlay

    @property
    def operators(self) -> frozenset[str]:
        """The operators that the user translates, overloads included."""
        return frozenset(name.partition(".")[0] for name in self._overlay)

    def keeps_function(self, function: Any) -> bool:
        """Whether an autograd Function has a converter, so that its calls are one node; others are inlined."""
        return PYTHON_OP in self._overlay or getattr(function, "symbolic", None) is not None

    def find(self, op: str, overload: str = "") -> Converter | None:
        registration = self._overlay.get(f"{op}.{overload}") or self._overlay.get(op)
        if registration is None:
            return self._base.find(op, overload)
        function, call = registration.function, registration.call

        @_in_place_of(function)
        def convert(g: Builder, /, **arguments: Any) -> Any:
            return call(function, g, arguments, self._base)

        return convert

    def of(self, node: Node) -> Converter | None:
        """The converter of a captured node. A user's function gets no complex tensors: ONNX has none."""
        if node.op == PYTHON_OP:
            return self._of_function(node.inputs["call"])
        return self._base.of(node) if node.is_complex else self.find(node.op, node.overload)

    def _of_function(self, call: PythonCall) -> Converter:
        """The symbolic function of an autograd Function, else the one registered for all of them."""
        registration = self._overlay.get(PYTHON_OP)
        shared = None if registration is None else registration.function
        symbolic = getattr(call.function, "symbolic", None) or shared

        @_in_place_of(symbolic)
        def convert(g: Builder, /, **arguments: Any) -> Any:
            return call_function(g, arguments, self._base, symbolic)

        return convert


def _in_place_of(function: Any) -> Callable[[Converter], Converter]:
    """Set the name of the user's function, for messages about its converter."""

    def mark(convert: Converter) -> Converter:
        if function is not None:
            setattr(convert, "__wrapped__", function)  # noqa: B010
        return convert

    return mark


OVERLAY = Overlay()


@public
def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Translate an operator (``ns::op``, ``::gelu`` for one of aten) by a symbolic function.

    It is used for target opsets from ``opset_version`` on, before built-in converters and earlier registrations; of
    several, the one with the newest opset that is not above the target.
    """
    name = _checked_name(symbolic_name)
    OVERLAY.add(name, Registration(_checked_function(symbolic_fn), _checked_opset(opset_version), call_classic))


@public
def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Undo the latest registration for this operator and opset; the one before is valid again."""
    OVERLAY.remove_latest(_checked_name(symbolic_name), _checked_opset(opset_version))


class UserConverter:
    """A function that was registered by `converter`; it can still be called, and ``unregister`` removes it."""

    def __init__(self, function: Callable[..., Any], names: tuple[str, ...], since: int) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "converter")
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._names = names
        self._registration = Registration(function, since, call_modern)
        for name in names:
            OVERLAY.add(name, self._registration)

    def unregister(self) -> None:
        """Remove the converter; the one before is valid again."""
        for name in self._names:
            OVERLAY.remove(name, self._registration)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)


def converter(*operators: str, since: int = 1) -> Callable[[Callable[..., Any]], UserConverter]:
    """Translate operators by the decorated function, from the opset ``since`` on.

    It is called with the graph object and the operator's arguments by the names of its schema: tensors as values,
    constants as Python values. ``.unregister()`` of the decorated function removes it.
    """
    if not operators:
        raise OptionError('converter: the name of an operator is missing, as in @onnxport.converter("ns::op")')
    names = tuple(_checked_name(name) for name in operators)
    _checked_opset(since)
    return lambda function: UserConverter(_checked_function(function), names, since)


def _checked_name(name: Any) -> str:
    if isinstance(name, str) and name.startswith("::"):
        name = f"aten{name}"
    if not isinstance(name, str) or not NAME.match(name):
        raise OptionError(f"the name of an operator is namespace::name, as in aten::gelu, not {name!r}")
    return name


def _checked_function(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise OptionTypeError(f"a symbolic function must be callable, not {function!r}")
    return function  # type: ignore[no-any-return]


def _checked_opset(opset: Any) -> int:
    if isinstance(opset, bool) or not isinstance(opset, int):
        raise OptionTypeError(f"the opset of a translation must be an int, not {opset!r}")
    return opset
