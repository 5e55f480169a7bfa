"""torch's own database of operators, OpInfo, and its samples as functions of tensors."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.testing._internal import common_methods_invocations
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

# The dtypes of `make test`, and those that `make ops` adds.
DTYPES = ("float32", "float16", "int64", "int32", "bool")
MORE_DTYPES = ("float64", "bfloat16", "uint8")

# How many samples of an operator are tried: all of them must pass.
SAMPLES = 3

# Their content is whatever was in memory.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# torch leaves open which of equal elements these point to: where the axis stands among the arguments after the input.
TIED = {"argsort": 0, "sort": 0, "topk": 1, "kthvalue": 1, "mode": 0}

# The vectors of these may point either way: which results those are.
UNSIGNED = {"linalg.eigh": (1,), "linalg.svd": (0, 2), "svd": (0, 2)}

# How often a random operator is run at most until it gives something else.
ATTEMPTS = 8


def name_of(operator: Any) -> str:
    """``nn.functional.interpolate.bilinear``: the operator's name and its variant."""
    return f"{operator.name}.{operator.variant_test_name}" if operator.variant_test_name else str(operator.name)


OPERATORS = {name_of(operator): operator for operator in common_methods_invocations.op_db}


def operators_with(dtype: str) -> Iterator[str]:
    """The operators that take a dtype, according to torch."""
    for name, operator in OPERATORS.items():
        if operator.supports_dtype(getattr(torch, dtype), "cpu"):
            yield name


@dataclass(frozen=True)
class Sample:
    """A call of an operator. Its tensors, in lists and keywords too, are inputs; everything else is fixed."""

    call: Callable[..., Any]
    tensors: list[torch.Tensor]
    operator: str
    tied_axis: int | None

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Copies, since some operators write to what they are given. What overlaps itself cannot be written to."""
        return tuple(tensor.detach().clone() if dense(tensor) else tensor.detach() for tensor in self.tensors)

    def run(self, seed: int) -> list[Any]:
        """What torch computes, flat."""
        torch.manual_seed(seed)
        with torch.no_grad(), patch.object(common_methods_invocations, "wrapper_set_seed", _unseeded):
            return tree_leaves(self.call(*self.inputs()))

    def is_random(self, results: list[Any]) -> bool:
        """Whether a run draws random numbers and gives another result than this for some."""
        for seed in range(1, ATTEMPTS):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            again = self.run(seed)
            if torch.equal(before, torch.get_rng_state()):
                return False
            if not all(map(_same, results, again)):
                return True
        return False

    def settled(self, results: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results with what is open taken out: indices among equals become the elements that they point to."""
        unsigned = UNSIGNED.get(self.operator, ())
        results = [result.abs() if place in unsigned else result for place, result in enumerate(results)]
        if self.tied_axis is None or not self.tensors[0].dim():
            return results
        return [*results[:-1], pointed_to(self.tensors[0], results[-1], self.tied_axis)]


def _unseeded(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """In place of OpInfo's own, which seeds random operators before each call: then they would not look random."""
    return call(*args, **keywords)


def dense(tensor: torch.Tensor) -> bool:
    """Whether a copy has the same strides."""
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def _same(one: Any, other: Any) -> bool:
    return not isinstance(one, torch.Tensor) or torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def pointed_to(source: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    if indices.dim() < source.dim():
        indices = indices.unsqueeze(axis)
    return source.gather(axis, indices)


def samples_of(name: str, dtype: str, count: int = SAMPLES) -> list[Sample]:
    """The first samples of an operator, the same in every process."""
    operator = OPERATORS[name]
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = operator.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)
        return [_sample(operator, given) for given in itertools.islice(found, count)]


def _unseeded(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return operator(*args, **kwargs)


def _sample(operator: Any, given: Any) -> Sample:
    leaves, form = tree_flatten((given.input, tuple(given.args), dict(given.kwargs)))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        first, args, keywords = tree_unflatten(filled, form)
        # A model that sets the seed itself is deterministic; here the operators are to be random.
        with patch.object(common_methods_invocations, "wrapper_set_seed", _unseeded):
            return operator.op(first, *args, **keywords)

    return Sample(call, [leaves[place] for place in places], operator.name, _tied_axis(operator.name, given))


def _tied_axis(operator: str, given: Any) -> int | None:
    if operator not in TIED or given.kwargs.get("stable"):
        return None
    position = TIED[operator]
    return given.args[position] if position < len(given.args) else given.kwargs.get("dim", -1)
