"""Every ATen call of a thread, seen above autograd: composite operators whole, with overload, arguments and results."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._functorch.eager_transforms
import torch._functorch.vmap
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from onnxport.compat.interception import Interception, PreDispatch, available

# (operator, args, kwargs) -> result. It is called where nothing is seen, and calls the operator itself.
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class _State(threading.local):
    handler: Handler | None = None


_STATE = _State()


def _fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    handler = _STATE.handler
    _switch(False)
    if handler is None:  # it is on in a thread that torch started with this one's state
        return op(*args, **kwargs)
    try:
        return handler(op, args, kwargs)
    finally:
        _switch(True)


def _use(way: Interception) -> None:
    global _way, _switch, _is_on
    _way, _switch, _is_on = way, way.switch, way.is_on


_way: Interception
_switch: Callable[[bool], None]
_is_on: Callable[[], bool]
_use(available(_fallback))


@contextlib.contextmanager
def through_pre_dispatch() -> Iterator[None]:
    """Models that are recorded inside are recorded in the second way, for tests of it."""
    outer = _way
    _use(PreDispatch(_fallback))
    try:
        yield
    finally:
        _use(outer)


def see_dispatching_tensors() -> None:
    """Have the calls on tensors with a __torch_dispatch__ seen, too."""
    _way.see_dispatching_tensors()


def current() -> Handler | None:
    """The handler that sees the calls of this thread."""
    return _STATE.handler


def is_seen() -> bool:
    """Whether the handler gets the calls that this thread makes now."""
    return _STATE.handler is not None and _is_on()


@contextlib.contextmanager
def seen_by(handler: Handler) -> Iterator[None]:
    """Let a handler have every ATen call of this thread; a handler around it has none meanwhile."""
    outer, was_on = _STATE.handler, _is_on()
    try:
        with _way.entered():
            _STATE.handler = handler
            _switch(True)
            yield
    finally:
        _STATE.handler = outer
        _switch(was_on)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Calls that the handler does not get."""
    was_on = _is_on()
    _switch(False)
    try:
        yield
    finally:
        _switch(was_on)


@contextlib.contextmanager
def seen_again() -> Iterator[None]:
    """Inside of a handler: calls that it gets, too."""
    _switch(True)
    try:
        yield
    finally:
        _switch(False)


# Tensors and modes with a __torch_dispatch__

DispatchMode: Any = TorchDispatchMode
# What a class of tensors has as its __torch_function__ if it has none.
NO_FUNCTION: Any = torch._C._disabled_torch_function_impl
# A context in which function modes and the __torch_function__ of tensors are not asked.
unaided: Callable[[], Any] = torch._C.DisableTorchFunction


def wrapper_of(kind: Any, tensor: torch.Tensor) -> Any:
    """A tensor without memory of its own that has the type of another, and is asked for its sizes by C++."""
    with unaided():
        return torch.Tensor._make_wrapper_subclass(
            kind,
            tensor.shape,
            strides=tensor.stride(),
            dtype=tensor.dtype,
            device=tensor.device,
            dispatch_sizes_strides_policy="sizes",
        )


# Transforms of torch.func

# Where tensors enter torch.vmap, and torch.func.grad, vjp and jvp.
TRANSFORM_ENTRIES: tuple[tuple[Any, str], ...] = (
    (torch._functorch.vmap, "_add_batch_dim"),
    (torch._functorch.eager_transforms, "_wrap_for_grad"),
)
# How many transforms are at work.
transforms: Callable[[], int] = torch._C._functorch.get_dynamic_layer_stack_depth
# The tensor inside of one that belongs to a transform, and whether a tensor is such a one.
unwrapped: Callable[[torch.Tensor], torch.Tensor] = torch._C._functorch.get_unwrapped
is_transformed: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
# The tensor inside of one whose transform is over, which C++ does not take everywhere; any other tensor is given back.
unwrap_if_over: Callable[[torch.Tensor], torch.Tensor] = torch._C._functorch.unwrap_if_dead


def is_in_backward() -> bool:
    """Whether autograd computes gradients right now."""
    return bool(torch._C._current_graph_task_id() != -1)


def no_modes() -> Any:
    """Calls that no dispatch mode of Python sees."""
    return _disable_current_modes()


# Autocast

_AUTOCAST = "AutocastCPU"
_AUTOCAST_KEY: Any = torch._C._parse_dispatch_key(_AUTOCAST)
_AUTOCAST_KEYS: Any = torch._C.DispatchKeySet(_AUTOCAST_KEY)
is_autocast_enabled: Callable[[str], bool] = torch.is_autocast_enabled


def casts_now() -> bool:
    """Whether autocast is on, and not at work right now."""
    return not torch._C._dispatch_tls_is_dispatch_key_excluded(_AUTOCAST_KEY)


@functools.cache
def has_autocast_kernel(op: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), _AUTOCAST))


@functools.cache
def is_composite(op: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"))


def call_autocast(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inside of a handler: the operator's casts, and the operator on what they gave, come to the handler."""
    with seen_again():
        return op.redispatch(_AUTOCAST_KEYS, *args, **kwargs)


class Composite:
    """What a composite operator is made of, in C++."""

    def __init__(self, op: Any) -> None:
        self._op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A function mode would take this call for one of the operator itself.
        with unaided():
            return self._op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
