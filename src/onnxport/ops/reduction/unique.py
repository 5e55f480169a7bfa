"""unique and unique_consecutive."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value


@converter("aten::_unique2", "aten::unique_dim")
def unique(
    g: Builder,
    self: Value,
    dim: int | None = None,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Value, ...]:
    """aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    values, first, inverse, counts = g.op("Unique", self, outputs=4, axis=None if dim is None else dim % self.rank)
    for positions in (first, inverse, counts):
        g.typed(positions, torch.int64)
    nothing = g.constant(torch.zeros(0), torch.int64)
    if dim is None and return_inverse:
        inverse = g.op("Reshape", inverse, sizes.shape_vector(g, self))
    # Results that are not requested are empty, except along a dimension.
    asked = return_inverse or dim is not None, return_counts or dim is not None
    return values, inverse if asked[0] else nothing, counts if asked[1] else nothing


@converter("aten::_unique")
def unique_with_inverse(
    g: Builder, self: Value, sorted: bool = True, return_inverse: bool = False
) -> tuple[Value, ...]:
    """aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)"""
    return unique(g, self, None, sorted, return_inverse)[:2]


@converter("aten::unique_consecutive", "aten::unique_dim_consecutive")
def unique_consecutive(
    g: Builder, self: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, Value, Value]:
    """aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    assert self.shape is not None
    flat = emit.reshape(g, self, [product(self.shape)]) if dim is None else self
    axis = 0 if dim is None else dim % self.rank
    later = emit.slice_(g, flat, [1], [emit.INT64_MAX], [axis])
    differs = g.op("Not", emit.equal(g, later, emit.slice_(g, flat, [0], [-1], [axis])))
    others = [i for i in range(flat.rank) if i != axis]
    if others:
        differs = g.cast(emit.reduce(g, "ReduceMax", g.cast(differs, torch.int32), others, keepdims=False), torch.bool)
    begins = g.op("Concat", g.constant([True]), differs, axis=0)
    numbers = g.op("Sub", emit.cumsum(g, g.cast(begins, torch.int64), 0), 1)
    positions = emit.squeeze(g, g.op("NonZero", begins), [0])
    count = sizes.vector(g, [(flat.shape or ())[axis]])
    ends = g.op("Concat", emit.slice_(g, positions, [1], [emit.INT64_MAX], [0]), count, axis=0)
    inverse = g.typed(numbers, torch.int64)
    if dim is None:
        inverse = g.op("Reshape", inverse, sizes.shape_vector(g, self))
    return g.op("Compress", flat, begins, axis=axis), inverse, g.op("Sub", ends, positions)
