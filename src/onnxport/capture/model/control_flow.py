"""torch.cond and other higher-order operators, computed in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.structure import flatten


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Calls one of two functions. Its results are copies, as they are where torch compiles the call."""
    return own_tensors(true_fn(*operands) if bool(pred) else false_fn(*operands))


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Any, additional: Any = (), **_: Any
) -> Any:
    """Calls a function with its own results as long as a condition holds."""
    while bool(cond_fn(*carried, *additional)):
        carried = tuple(body_fn(*carried, *additional))
    return own_tensors(tuple(carried))


def own_tensors(result: Any) -> Any:
    leaves, structure = flatten(result)
    return structure.unflatten([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])


# By the names under which torch function modes see them.
BY_HAND: dict[str, Callable[..., Any]] = {compat.higher_order.COND: cond, compat.higher_order.WHILE_LOOP: while_loop}
