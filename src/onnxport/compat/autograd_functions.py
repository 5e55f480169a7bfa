"""Autograd Functions: their forward is called directly, so that the calls inside are recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import autograd_function
from torch.autograd.function import FunctionCtx, FunctionMeta, _is_setup_context_defined, _SingleLevelFunction

from onnxport.compat import dispatch
from onnxport.compat.patches import found, own_attribute, replaced

CallKept = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
# Who knows what ``Function.apply`` calls inside of torch.vmap and its like.
HOLDERS: tuple[Any, ...] = (autograd_function, torch.autograd.function)
# From torch 2.15 on ``Function.apply`` is the one of C++, which calls nothing of Python's but the forward; before, it
# is written in Python and goes on to that of its base.
IN_CPP = not isinstance(vars(torch.autograd.Function)["apply"], classmethod)
APPLIES: Any = torch.autograd.Function if IN_CPP else _SingleLevelFunction


class _Context(FunctionCtx):
    """What a forward is given to keep things for a backward that does not come."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments)


@contextlib.contextmanager
def called_directly(keeps: Callable[[Any], bool], call_kept: CallKept | None = None) -> Iterator[None]:
    """While a model is captured, an autograd Function is no more than its forward, but for those that are kept.

    In a recorded model ``call_kept`` makes the calls of these: it is given the Function and its arguments.

    Calls in other threads, which are not recorded, are as they were.
    """

    def is_direct(function: Any) -> bool:
        return dispatch.is_seen() and not keeps(function)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if is_direct(cls):
            return forward(cls, args, kwargs)
        return call_kept(cls, args, kwargs) if call_kept is not None and dispatch.is_seen() else NotImplemented

    def apply_in_transform(function: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(function, args, kwargs) if is_direct(function) else NotImplemented

    def find_forward(function: Any) -> Any:
        """For the ``apply`` of C++: a forward that is the call of a Function that is kept."""
        if call_kept is None or not dispatch.is_seen() or not keeps(function):
            return NotImplemented

        def called(*args: Any, **kwargs: Any) -> Any:
            given = args if _has_setup_context(function) else args[1:]
            if given is not args and not isinstance(args[0], function._backward_cls):
                return own_forward(function)(*args, **kwargs)  # the model calls it, not apply
            return call_kept(function, given, kwargs)

        return called

    with contextlib.ExitStack() as stack:
        # Models have Function.apply in variables of their own: all of these lie behind it, but for that of C++.
        stack.enter_context(replaced(APPLIES, "apply", apply, kind="class"))
        if IN_CPP:
            stack.enter_context(found(FunctionMeta, "forward", find_forward))
        for holder in HOLDERS:
            stack.enter_context(replaced(holder, "custom_function_call", apply_in_transform))
        yield


def forward(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the forward of a Function gives."""
    if _has_setup_context(function):
        return own_forward(function)(*args, **kwargs)
    return own_forward(function)(_Context(args), *args, **kwargs)


def own_forward(function: Any) -> Any:
    return own_attribute(function, "forward")


def _has_setup_context(function: Any) -> bool:
    return bool(_is_setup_context_defined(function.setup_context))  # type: ignore[no-untyped-call]
