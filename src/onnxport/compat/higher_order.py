"""Higher-order operators: control flow that a model is given as functions."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._higher_order_ops.associative_scan
import torch._higher_order_ops.flex_attention
import torch._higher_order_ops.utils as utils
import torch.overrides
import torch.utils._pytree as pytree

from onnxport.compat.patches import replaced

# Each is an object that a mode is shown like a function of torch, with this name.
COND, WHILE_LOOP, SCAN, MAP, ATTENTION = "cond", "while_loop", "scan", "map_impl", "flex_attention"
# Those that are known by name, and cannot be recorded.
OTHERS = frozenset({"associative_scan", "while_loop_stack_output"})
# What ``associative_scan`` calls: it halves an axis again and again. And what ``flex_attention`` computes.
HALVING: tuple[Any, str] = sys.modules["torch._higher_order_ops.associative_scan"], "generic_associative_scan"
math_attention: Callable[..., Any] = sys.modules["torch._higher_order_ops.flex_attention"].math_attention

# A context in which the innermost mode is not shown what is called.
without_mode: Callable[[], contextlib.AbstractContextManager[Any]] = torch.overrides._pop_mode_temporarily


def for_single_rows(operator: Any) -> Callable[..., Any]:
    """The function that ``associative_scan`` calls for many pairs of rows at once, for one pair."""
    keywords = operator.keywords
    return functools.partial(operator.func, **{**keywords, "combine_fn": keywords["combine_fn"].__wrapped__})


def is_higher_order(function: object) -> bool:
    return isinstance(function, torch._ops.HigherOrderOperator)


def called_directly() -> contextlib.AbstractContextManager[None]:
    """In this thread ``torch.cond`` and its like are called as they are; elsewhere torch compiles what they call.

    What is compiled is hidden from modes.
    """

    def call(function: Any, args: Any, kwargs: Any = None) -> Any:
        if function.__name__ == "_cond_op_wrapper":
            args = _with_flat_operands(*args)
        if function.__name__ == "run_flattened_scan":
            return _in_structure(function(*args), *args)
        return function(*args, **(kwargs or {}))

    return replaced(utils, "_hop_compile_and_call", call)


def _in_structure(results: Any, combine_fn: Any, init: Any, xs: Any) -> Any:
    """The results of ``scan`` as states and rows: the operator gives a flat tuple, which only a compiler parts."""
    if len(results) == 2:
        return results
    _, structure = pytree.tree_flatten(combine_fn(*init, *(x.select(0, 0) for x in xs)))
    return pytree.tree_unflatten(results, structure)


def _with_flat_operands(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> tuple[Any, ...]:
    """The arguments of ``cond`` as the operator takes them: tensors, where a user has them in lists and dicts."""
    leaves, structure = pytree.tree_flatten(operands)

    def flat(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(*pytree.tree_unflatten(given, structure))

    return pred, flat(true_fn), flat(false_fn), tuple(leaves)
