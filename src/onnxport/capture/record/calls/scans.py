"""``scan``, ``map`` and ``associative_scan`` of torch's higher-order operators, as loops over the first axis.

The results of all iterations are rows of tensors that the loop carries. Attention with functions as arguments is
recorded as the operators that it consists of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.structure import flatten
from onnxport.capture.record.calls.control_flow import loop
from onnxport.capture.record.recording import Recording

Tensors = Sequence[torch.Tensor]


def scan(recorder: Recording, combine_fn: Callable[..., Any], init: Tensors, xs: Tensors, rest: Any = ()) -> Any:
    """The last states, and the stacked outputs of all iterations, in the structure that the function returns.

    One iteration is recorded ahead of the loop, for the shapes of its outputs. Nothing else reads it, so it is not in
    the file where they follow from other sizes.
    """
    count = len(init)
    with recorder.mode:
        given, structure = flatten(combine_fn(*init, *(x.select(0, 0) for x in xs), *rest))
        rows = [y.new_zeros((xs[0].shape[0], *y.shape)) for y in given[count:]]

    def step(index: torch.Tensor, *carried: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made, _ = flatten(combine_fn(*carried[:count], *_at(xs, index), *rest))
        return *made[:count], *_written(carried[count:], index, made[count:])

    return structure.unflatten(_rounds(recorder, xs[0], 0, step, (*init, *rows)))


def mapped(recorder: Recording, f: Callable[..., Any], xs: Tensors, rest: Any = ()) -> Any:
    """What a function gives for each row."""
    return scan(recorder, f, (), xs, rest)


def associative_scan(recorder: Recording, operator: Any, leaves: Tensors, additional_inputs: Any = ()) -> Any:
    """Each row combined with the result for the row before."""
    if not recorder.is_active():
        return NotImplemented
    combine_fn = compat.higher_order.for_single_rows(operator)
    count = len(leaves)

    def step(index: torch.Tensor, *carried: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made, _ = flatten(combine_fn(*carried[:count], *_at(leaves, index), *additional_inputs))
        return *made, *_written(carried[count:], index, made)

    with compat.higher_order.without_mode():
        with recorder.mode:
            firsts, rows = [leaf.select(0, 0) for leaf in leaves], [leaf.clone() for leaf in leaves]
        return _rounds(recorder, leaves[0], 1, step, (*firsts, *rows))[count:]


def attention(recorder: Recording, *args: Any, **kwargs: Any) -> Any:
    """``flex_attention`` by its definition: products, and the functions over all pairs of places."""
    with recorder.mode:
        return compat.higher_order.math_attention(*args, **kwargs)


def _at(xs: Tensors, index: torch.Tensor) -> list[torch.Tensor]:
    return [x.index_select(0, index).squeeze(0) for x in xs]


def _written(rows: Tensors, index: torch.Tensor, made: Tensors) -> list[torch.Tensor]:
    return [row.index_copy(0, index, y.unsqueeze(0)) for row, y in zip(rows, made, strict=True)]


def _rounds(
    recorder: Recording, over: torch.Tensor, start: int, step: Callable[..., tuple[torch.Tensor, ...]], carried: Tensors
) -> list[torch.Tensor]:
    """A loop over the rows of a tensor; each iteration has its index as a vector of one element."""
    with recorder.mode:
        first = torch.full((), start, dtype=torch.int64)
        end = torch.tensor(over.shape[0])

    def body(index: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return index + 1, *step(index.reshape(1), *given)

    results = loop(recorder, lambda index, *given: index < end, body, (first, *carried))
    return list(results[1:])
