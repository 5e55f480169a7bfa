"""Runs the calls of a torch.export program in a form that the recorder follows."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from onnxport import compat

# Checks without a result.
CHECKS = frozenset(
    {
        "_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range", "_functional_assert_async",
        "sym_constrain_range_for_size", "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size",
        "_functional_assert_scalar",
    }
)  # fmt: skip
# Of a tensor's element, a number: a tensor in a trace, as sizes are.
READS = frozenset({"item", "_local_scalar_dense"})
NUMBER_FUNCTIONS = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.neg,
        operator.pow, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_,
        operator.or_, operator.not_, torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_float, torch.sym_int,
    }
)  # fmt: skip


def is_check(node: fx.Node) -> bool:
    if node.op == "call_module":
        return not node.users and str(node.target) == "_guards_fn"
    return node.op == "call_function" and compat.programs.aten_name(node.target) in CHECKS and not node.users


def is_number(node: fx.Node) -> bool:
    """Whether a node computes a number from numbers or from a tensor's sizes."""
    if node.op != "call_function":
        return False
    return node.target in NUMBER_FUNCTIONS or compat.programs.aten_name(node.target) in {*SIZES, *READS}


def call(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call in the program."""
    name = compat.programs.aten_name(target)
    if name is not None and name in INSTEAD:
        return INSTEAD[name](*args, **kwargs)
    if name is None or not _has_recorded_numbers(target, args, kwargs):
        return target(*args, **kwargs)
    function = python_function(target)
    if function is not None:
        return function(*args, **kwargs)
    return _called_plainly(target, args, kwargs)


@functools.cache
def _number_types(target: Any) -> tuple[dict[int, str], dict[str, str]]:
    """The types of an operator's arguments that are not tensors, by index and by name."""
    types = {p.name: str(p.real_type) for p in target._schema.arguments if "Tensor" not in str(p.real_type)}
    names = [p.name for p in target._schema.arguments]
    return {names.index(name): kind for name, kind in types.items()}, types


def _has_recorded_numbers(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor is passed as a number, or a bool as a ``Scalar``."""
    by_index, by_name = _number_types(target)
    numbers = [(by_index[index], argument) for index, argument in enumerate(args) if index in by_index]
    numbers += [(by_name[name], argument) for name, argument in kwargs.items() if name in by_name]
    return any(_has_tensor(argument) or (type(argument) is bool and "number" in kind) for kind, argument in numbers)


def _has_tensor(argument: Any) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(map(_has_tensor, argument))
    return isinstance(argument, torch.Tensor)


def _called_plainly(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with plain numbers in place of tensors; runs at other sizes show which of them are constants."""
    by_index, by_name = _number_types(target)
    positional = [_number(argument) if index in by_index else argument for index, argument in enumerate(args)]
    named = {name: _number(argument) if name in by_name else argument for name, argument in kwargs.items()}
    return target(*positional, **named)


def _number(argument: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(map(_number, argument))
    return argument.item() if isinstance(argument, torch.Tensor) else argument


@functools.cache
def python_function(target: Any) -> Callable[..., Any] | None:
    """The Python function of torch that calls an operator, and takes recorded sizes."""
    name = compat.programs.aten_name(target) or ""
    if name == "slice":
        return _slice
    parameters = target._schema.arguments
    if parameters and parameters[0].name == "self" and hasattr(torch.Tensor, name):
        function: Callable[..., Any] = getattr(torch.Tensor, name)
        return function
    for holder in compat.programs.HOLDERS:
        if hasattr(holder, name):
            return getattr(holder, name)  # type: ignore[no-any-return]
    return None


def _slice(self: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    dim = dim % self.dim()
    return self[(slice(None),) * dim + (slice(start, end, step),)]


def _element(self: Any) -> Any:
    return self.item()


def _identity(self: Any) -> Any:
    return self


SIZES: dict[str, Callable[..., Any]] = {
    "sym_size": lambda self, *dim: self.size(*dim),
    "sym_numel": lambda self: self.numel(),
}
INSTEAD: dict[str, Callable[..., Any]] = {
    **SIZES,
    **dict.fromkeys(READS, _element),
    "lift_fresh_copy": torch.clone,
    "lift_fresh": _identity,
}
