"""Higher-order operators: control flow that a model is given as functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch._higher_order_ops.utils as utils
import torch.utils._pytree as pytree

from onnxport.compat.patches import replaced

# Each is an object that a mode is shown like a function of torch, with this name.
COND, WHILE_LOOP = "cond", "while_loop"
# Those that are known by name, and cannot be recorded.
OTHERS = frozenset({"scan", "map_impl", "associative_scan", "flex_attention", "while_loop_stack_output"})


def is_higher_order(function: object) -> bool:
    return isinstance(function, torch._ops.HigherOrderOperator)


def called_directly() -> contextlib.AbstractContextManager[None]:
    """In this thread ``torch.cond`` and its like are called as they are; elsewhere torch compiles what they call.

    What is compiled is hidden from modes.
    """

    def call(function: Any, args: Any, kwargs: Any = None) -> Any:
        if function.__name__ == "_cond_op_wrapper":
            args = _with_flat_operands(*args)
        return function(*args, **(kwargs or {}))

    return replaced(utils, "_hop_compile_and_call", call)


def _with_flat_operands(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> tuple[Any, ...]:
    """The arguments of ``cond`` as the operator takes them: tensors, where a user has them in lists and dicts."""
    leaves, structure = pytree.tree_flatten(operands)

    def flat(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(*pytree.tree_unflatten(given, structure))

    return pred, flat(true_fn), flat(false_fn), tuple(leaves)
