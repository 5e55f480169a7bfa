"""A call in double precision: every operator that would compute in single precision computes in double."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """While it is active, tensors of single precision are widened as they are used, and no new ones are made.

    The model's weights stay what they are, as does everything of other dtypes. What would write into a tensor of single
    precision, or reads the bits of a number, is a RuntimeError: it has no counterpart in double precision.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(WIDER.get(default, default))
    try:
        with _Operators(), _Functions():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(default)


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Widens what each operator is given, dtypes among it."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.ops.aten.view.dtype or _writes_narrow(function._schema, args, kwargs):
            raise RuntimeError(f"{function} has no counterpart in double precision")
        return function(*tree_map(widened, args), **tree_map(widened, kwargs))


class _Functions(TorchFunctionMode):
    """The weights that a function is given: some compare their dtype with the input's before any operator runs."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        asks_dtype = getattr(function, "__self__", None) is torch.Tensor.dtype
        if getattr(function, "__name__", "_").endswith("_") and not asks_dtype:
            return function(*args, **kwargs)  # it may write to the first of them
        return function(*tree_map(_widened_weight, args), **tree_map(_widened_weight, kwargs))


def widened(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument.to(WIDER[argument.dtype]) if argument.dtype in WIDER else argument
    return WIDER.get(argument, argument) if isinstance(argument, torch.dtype) else argument


def _widened_weight(argument: Any) -> Any:
    return widened(argument) if isinstance(argument, nn.Parameter) else argument


def _writes_narrow(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an operator writes into a tensor of single precision, which was there before."""
    if not schema.is_mutable:
        return False
    given = ((args[i] if i < len(args) else kwargs.get(a.name), a.alias_info) for i, a in enumerate(schema.arguments))
    return any(
        alias is not None and alias.is_write and isinstance(tensor, torch.Tensor) and tensor.dtype in WIDER
        for tensor, alias in given
    )
