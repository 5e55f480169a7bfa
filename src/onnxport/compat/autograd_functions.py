"""Autograd Functions, the forward of which torch hides from what it calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import autograd_function
from torch.autograd.function import FunctionCtx, _is_setup_context_defined, _SingleLevelFunction

from onnxport.compat import dispatch

CallKept = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
# Who knows what ``Function.apply`` calls inside of torch.vmap and its like.
HOLDERS: tuple[Any, ...] = (autograd_function, torch.autograd.function)


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
    in_transform: Any = autograd_function.custom_function_call
    outer = vars(_SingleLevelFunction).get("apply")  # that of an export which calls a model that exports another one

    def is_direct(function: Any) -> bool:
        return dispatch.is_seen() and not keeps(function)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if is_direct(cls):
            return forward(cls, args, kwargs)
        if call_kept is not None and dispatch.is_seen():
            return call_kept(cls, args, kwargs)
        return super(_SingleLevelFunction, cls).apply(*args, **kwargs)

    def apply_in_transform(function: Any, *args: Any, **kwargs: Any) -> Any:
        if is_direct(function):
            return forward(function, args, kwargs)
        return in_transform(function, *args, **kwargs)

    # Both lie behind Function.apply itself, which models have in variables of their own.
    _SingleLevelFunction.apply = classmethod(apply)  # type: ignore[attr-defined]
    for holder in HOLDERS:
        holder.custom_function_call = apply_in_transform
    try:
        yield
    finally:
        for holder in HOLDERS:
            holder.custom_function_call = in_transform
        if outer is None:
            del _SingleLevelFunction.apply  # type: ignore[attr-defined]
        else:
            _SingleLevelFunction.apply = outer  # type: ignore[attr-defined]


def forward(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the forward of a Function gives."""
    if _is_setup_context_defined(function.setup_context):  # type: ignore[no-untyped-call]
        return function.forward(*args, **kwargs)
    return function.forward(_Context(args), *args, **kwargs)
