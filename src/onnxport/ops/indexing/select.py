"""Selections of a fixed number of elements: combinations, nonzero_static."""

from __future__ import annotations

import itertools

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.indexing.masking import nonzero


@converter("aten::combinations")
def combinations(g: Builder, self: Value, r: int = 2, with_replacement: bool = False) -> Value:
    """aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor"""
    assert self.shape is not None
    count = self.shape[0]
    if r == 0:
        return emit.filled(g, [0], 0, self.dtype)
    if not isinstance(count, int):
        return g.op("Gather", self, _rising(g, count, r, with_replacement), axis=0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    positions = torch.tensor(list(choose(range(count), r)), dtype=torch.int64).reshape(-1, r)
    return g.op("Gather", self, g.constant(positions), axis=0)


def _rising(g: Builder, count: AnySize, r: int, with_replacement: bool) -> Value:
    """All rows of r increasing positions."""
    positions = emit.counting(g, count)
    if r == 1:
        return emit.unsqueeze(g, positions, [1])
    along = [emit.unsqueeze(g, positions, [i for i in range(r) if i != axis]) for axis in range(r)]
    rises = emit.less_or_equal if with_replacement else (lambda b, x, y: b.op("Less", x, y))
    kept = rises(g, along[0], along[1])
    for left, right in itertools.pairwise(along[1:]):
        kept = g.op("And", kept, rises(g, left, right))
    return g.op("Transpose", g.op("NonZero", kept), perm=[1, 0])


@converter("aten::nonzero_static")
def nonzero_static(g: Builder, self: Value, size: AnySize, fill_value: int = -1) -> Value:
    """aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"""
    found = nonzero(g, self)
    filler = emit.filled(g, [size, self.rank], fill_value, torch.int64)
    return emit.slice_(g, g.op("Concat", found, filler, axis=0), [0], [size], [0])
