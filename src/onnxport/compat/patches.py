"""What is replaced in torch and in the model's modules while a model is recorded, each with its reason.

A replacement is in place as long as somebody records. Each thread asks that of its own export, of two of which one runs
inside of the other that of the inner one; in every other thread it does what the original does.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, Literal

import torch

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep

# A function that is given the original and the arguments, and returns NotImplemented where the original is to be used.
Instead = Callable[..., Any]

# Everything that `replaced` and `answered` may replace, and why.
REASONS: dict[str, str] = {
    "_InternalGlobals.in_onnx_export": "models ask whether they are exported, and it is noted that they did",
    "Function.apply": "the forward of an autograd Function is hidden from what it calls",
    "FunctionMeta.forward": "the same where a model has Function.apply in a variable, and C++ looks for the forward",
    "MultiheadAttention.forward": "without its fused kernels the result lies in memory in another way",
    "OpOverload._get_dispatch": "gives each ATen call to the recorder where its dispatch key is not to be had",
    "ScriptFunction.__call__": "a call of a script is one call of the record, whose graph is read",
    "ScriptMethod.__call__": "a call of a script is one call of the record, whose graph is read",
    "Tensor.__repr__": "no mode sees that C++ wants the text of a tensor",
    "Tensor._make_subclass": "nn.Parameter(x) is another name of a value, made without an operator",
    "Tensor.as_subclass": "it gives another name to a value, without an operator",
    "_SingleLevelFunction.apply": "the forward of an autograd Function is hidden from what it calls",
    "torch._C._get_tracing_state": "models ask whether they are traced",
    "torch._functorch.autograd_function.custom_function_call": "the same inside of torch.vmap and its like",
    "torch._functorch.eager_transforms._wrap_for_grad": "tensors enter torch.func.grad with their sizes",
    "torch._functorch.vmap._add_batch_dim": "tensors enter torch.vmap with their sizes",
    "torch._higher_order_ops.associative_scan.generic_associative_scan": "its halves of an axis become one loop",
    "torch._higher_order_ops.utils._hop_compile_and_call": "torch.cond compiles its branches, which hides their calls",
    "torch.autograd.function.custom_function_call": "the second place where torch has it",
    "torch.compile": "compiled code runs without the dispatcher: it runs as it was written",
    "torch.cond": "a condition on sizes is decided, or both branches are recorded",
    "torch.jit._fork": "what is forked runs in another thread, where nothing is recorded",
    "torch.jit._trace.is_tracing": "models ask whether they are traced",
    "torch.jit._wait": "the results of what was forked are there already",
    "torch.jit.fork": "what is forked runs in another thread, where nothing is recorded",
    "torch.jit.is_tracing": "models ask whether they are traced",
    "torch.jit.wait": "the results of what was forked are there already",
    "torch.nn.utils.stateless._functional_call": "torch.func.functional_call refuses to run in a model that is traced",
    "torch.sym_sum": "it gives a number of C++'s, which does not tell what Python asks of it",
    "torch.range": "no mode sees that a model calls it",
}

# What models ask to learn whether they are captured: then they take no short cuts that only the example's data allow.
TRACING: tuple[tuple[Any, str, Any], ...] = (
    (torch.jit, "is_tracing", True),
    (torch._C, "_get_tracing_state", True),
    (torch.jit._trace, "is_tracing", True),
)
# Functions with ``torch.jit.script_if_tracing`` are called by this one, which asks for them.
_SCRIPTS_IF_TRACED = torch.jit._trace._script_if_tracing(lambda: None).__code__

_LOCK = threading.Lock()
_ABSENT = object()
_USERS: dict[tuple[int, str], tuple[int, Any]] = {}
_BUILT_IN: dict[tuple[int, str], Any] = {}  # wrappers of functions that TorchScript has built in


class _Own(threading.local):
    """What the exports of a thread have put in the place of something, the innermost last."""

    def __init__(self) -> None:
        self.instead: dict[tuple[int, str], list[Instead]] = {}


_OWN = _Own()


@contextlib.contextmanager
def _counted(key: tuple[int, str], put: Callable[[], Any], restore: Callable[[Any], None]) -> Iterator[None]:
    """The first user puts something in place, and the last one to leave restores what was there."""
    with _LOCK:
        count, original = _USERS.get(key, (0, None))
        _USERS[key] = count + 1, original if count else put()
    try:
        yield
    finally:
        with _LOCK:
            count, original = _USERS.pop(key)
            if count > 1:
                _USERS[key] = count - 1, original
            else:
                restore(original)


def shared(
    key: tuple[int, str], make: Callable[[], contextlib.AbstractContextManager[Any]]
) -> contextlib.AbstractContextManager[None]:
    """A context of the process, which the first user enters and the last one leaves."""

    def put() -> contextlib.AbstractContextManager[Any]:
        context = make()
        context.__enter__()
        return context

    return _counted(key, put, lambda context: context.__exit__(None, None, None))


@contextlib.contextmanager
def replaced(
    holder: Any, name: str, instead: Instead, *, kind: Literal["plain", "static", "class"] = "plain"
) -> Iterator[None]:
    """``holder.name`` asks ``instead`` first, in this thread; `REASONS` says why.

    A method of a class that is static or gets the class stays of its ``kind``.
    """
    assert _dotted(holder, name) in REASONS, f"{_dotted(holder, name)} is replaced without a reason"
    key = id(holder), name
    own = _OWN.instead.setdefault(key, [])

    def put() -> Any:
        original = vars(holder).get(name, _ABSENT)
        if kind == "class":
            setattr(holder, name, classmethod(_class_wrapper(holder, name, key)))
        else:
            wrapper = _compiled_as(getattr(holder, name), key) or _wrapper(getattr(holder, name), key)
            setattr(holder, name, staticmethod(wrapper) if kind == "static" else wrapper)
        return original

    def restore(original: Any) -> None:
        if original is _ABSENT:  # a class has it from its base
            delattr(holder, name)
        else:
            setattr(holder, name, original)

    with _counted(key, put, restore):
        own.append(instead)
        try:
            yield
        finally:
            own.pop()


@contextlib.contextmanager
def answered(kind: Any, name: str, answer: Callable[[], Any]) -> Iterator[None]:
    """A property of a class is what ``answer`` gives, in this thread; `REASONS` says why."""
    assert _dotted(kind, name) in REASONS, f"{_dotted(kind, name)} is replaced without a reason"
    key = id(kind), name
    own = _OWN.instead.setdefault(key, [])

    def put() -> Any:
        original = vars(kind)[name]

        def read(holder: Any) -> Any:
            answers = _OWN.instead.get(key)
            return answers[-1]() if answers else original.fget(holder)

        setattr(kind, name, property(read, original.fset, doc=original.__doc__))
        return original

    with _counted(key, put, lambda original: setattr(kind, name, original)):
        own.append(answer)
        try:
            yield
        finally:
            own.pop()


@contextlib.contextmanager
def found(metaclass: Any, name: str, find: Callable[[Any], Any]) -> Iterator[None]:
    """``find`` is asked for this attribute of the metaclass's classes, in this thread; `REASONS` says why.

    It returns NotImplemented where a class's own is to be used.
    """
    assert _dotted(metaclass, name) in REASONS, f"{_dotted(metaclass, name)} is replaced without a reason"
    key = id(metaclass), name
    own = _OWN.instead.setdefault(key, [])

    def read(kind: Any) -> Any:
        asked = _OWN.instead.get(key)
        value = asked[-1](kind) if asked else NotImplemented
        return own_attribute(kind, name) if value is NotImplemented else value

    def put() -> None:
        setattr(metaclass, name, property(read))

    with _counted(key, put, lambda original: delattr(metaclass, name)):
        own.append(find)
        try:
            yield
        finally:
            own.pop()


def own_attribute(kind: type, name: str) -> Any:
    """A static method or the like that a class or its base has, whatever the metaclass says."""
    held = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
    return held.__get__(None, kind) if hasattr(held, "__get__") else held


def _dotted(holder: Any, name: str) -> str:
    """``torch.jit.fork``, ``Tensor.as_subclass``."""
    known = holder.__name__ if isinstance(holder, ModuleType) else holder.__name__.rpartition(".")[2]
    return f"{known}.{name}"


def _wrapper(original: Any, key: tuple[int, str]) -> Any:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        own = _OWN.instead.get(key)
        result = own[-1](*args, **kwargs) if own else NotImplemented
        return original(*args, **kwargs) if result is NotImplemented else result

    return wrapper


def _compiled_as(original: Any, key: tuple[int, str]) -> Any:
    """The wrapper of a function that TorchScript has built in, as it compiles a call of it; None for another function.

    It knows these functions by their identity, so there is one wrapper for all exports.
    """
    known: dict[int, str] = torch.jit._builtins._get_builtin_table()  # type: ignore[no-untyped-call]
    if id(original) in known and key not in _BUILT_IN:
        _BUILT_IN[key] = _wrapper(original, key)
        known[id(_BUILT_IN[key])] = known[id(original)]
    return _BUILT_IN.get(key)


def _class_wrapper(holder: Any, name: str, key: tuple[int, str]) -> Any:
    """The same for a method that gets the class, and that the holder has from its base."""

    def wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
        own = _OWN.instead.get(key)
        result = own[-1](cls, *args, **kwargs) if own else NotImplemented
        return getattr(super(holder, cls), name)(*args, **kwargs) if result is NotImplemented else result

    return wrapper


def injected(names: dict[str, Any], name: str, value: Any) -> contextlib.AbstractContextManager[None]:
    """Another value for a name of a module, which may hide a built-in one.

    Numbers are followed through ``len``, ``min``, ``int``, ``math`` and their like where the model's modules use them,
    and functions of torch.nn.functional do not ask whether somebody overrides them.
    """

    def put() -> Any:
        original = names.get(name, _ABSENT)
        names[name] = value
        return original

    def restore(original: Any) -> None:
        if original is _ABSENT:
            del names[name]
        else:
            names[name] = original

    return _counted((id(names), name), put, restore)


@contextlib.contextmanager
def answering_as_traced(is_traced: Callable[[list[CodeType], Any], bool]) -> Iterator[None]:
    """Models that ask hear that they are traced where ``is_traced`` says so; torch itself, which would act on it, does
    not. It is given the function that asks and its caller, and the function if it is to be scripted then."""

    def instead(answer: Any) -> Instead:
        def asked() -> Any:
            frame = sys._getframe(2)
            scripted = frame.f_locals["fn"] if frame.f_code is _SCRIPTS_IF_TRACED else None
            if frame.f_code.co_filename.startswith(TORCH_FOLDER) and scripted is None:
                return NotImplemented
            code = frame.f_code if scripted is None else scripted.__code__
            asking = [code] if frame.f_back is None else [code, frame.f_back.f_code]
            return answer if is_traced(asking, scripted) else NotImplemented

        return asked

    with contextlib.ExitStack() as stack:
        for holder, name, answer in TRACING:
            stack.enter_context(replaced(holder, name, instead(answer)))
        yield
