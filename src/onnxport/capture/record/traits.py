"""What the recorder has to know of an operator, found once for each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.graph.data_sizes import COUNTING_OPERATORS

# Made of operators that torch tags as counting, and not tagged themselves.
COMPOSITE_COUNTING = frozenset(
    {
        torch.ops.aten.where.default,
        torch.ops.aten.tensor_split.tensor_indices_or_sections,
        torch.ops.aten.repeat_interleave.self_Tensor,
    }
)
# Their results follow from the types of tensors, neither from content nor from sizes.
ASKS_FOR_TYPE = frozenset(
    {
        "aten::dim", "aten::get_device", "aten::is_complex", "aten::is_conj", "aten::is_floating_point", "aten::is_neg",
        "aten::is_signed", "aten::result_type",
    }
)  # fmt: skip
READS = frozenset({torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default})


@dataclass(frozen=True, slots=True)
class Traits:
    """``reads`` tells that it gives Python the content of a tensor, ``writes`` that it writes to an argument,
    ``reviews`` that it writes no memory then, but makes the argument another view of it, ``draws`` that it draws random
    numbers, ``may_count`` that the sizes of its results may depend on the content of arguments."""

    reads: bool
    writes: bool
    reviews: bool
    draws: bool
    may_count: bool


@functools.cache
def traits_of(op: Any) -> Traits:
    counts = torch.Tag.dynamic_output_shape in op.tags or op._schema.name in COUNTING_OPERATORS
    return Traits(
        reads=op in READS,
        writes=op._schema.is_mutable,
        reviews=_reviews(op),
        draws=torch.Tag.nondeterministic_seeded in op.tags,
        may_count=counts or op in COMPOSITE_COUNTING,
    )


def _reviews(op: Any) -> bool:
    """Whether an operator is the in-place form of one that returns a view, as ``detach_`` is."""
    if torch.Tag.inplace_view not in op.tags:
        return False
    packet = getattr(torch.ops.aten, op._schema.name.partition("::")[2].removesuffix("_"), None)
    view = getattr(packet, op._overloadname, None)
    return view is not None and view._schema.returns[0].alias_info is not None


def counts(op: Any, traits: Traits, args: Sequence[Any]) -> bool:
    """Whether the sizes of an operator's results depend on the content of its arguments."""
    if not traits.may_count:
        return False
    if op is not torch.ops.aten.index.Tensor:
        return True
    return any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])
