"""Emitters that gather from and scatter to positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from onnxport.graph.sizes import Shape, Size, static_sizes
from onnxport.lower import sizes
from onnxport.lower.value import AnySize, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder


def topk(
    g: Builder, x: Value, k: AnySize, axis: int, largest: bool = True, sorted_: bool = True
) -> tuple[Value, Value]:
    """k is an input from opset 10; the smallest can be asked for from 11."""
    if g.opset >= 11:
        values, indices = g.op(
            "TopK", x, sizes.vector(g, [k]), outputs=2, axis=axis, largest=int(largest), sorted=int(sorted_)
        )
    else:
        source = x if largest else g.op("Neg", x)
        if g.opset >= 10:
            values, indices = g.op("TopK", source, sizes.vector(g, [k]), outputs=2, axis=axis)
        else:
            if not isinstance(k, int):
                g.require(10, "a k that is computed")
            values, indices = g.op("TopK", source, outputs=2, axis=axis, k=k)
        values = values if largest else g.op("Neg", values)
    shape = _with(x, axis, sizes.known(k))
    return g.typed(values, x.dtype, shape), g.typed(indices, torch.int64, shape)


def _with(x: Value, axis: int, size: Size | None) -> Shape | None:
    if x.shape is None or size is None:
        return None
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])


def scatter_elements(g: Builder, x: Value, index: Value, source: Value, axis: int, reduction: str = "none") -> Value:
    """Scatter became ScatterElements in opset 11; add and mul came in 16, max and min in 18."""
    if reduction != "none":
        g.require(18 if reduction in ("max", "min") else 16, f"a scatter that reduces by {reduction}")
        wide, updates = _reducible(g, x), _reducible(g, source)
        return g.cast(g.op("ScatterElements", wide, index, updates, axis=axis, reduction=reduction), x.dtype)
    return g.op("ScatterElements" if g.opset >= 11 else "Scatter", x, index, source, axis=axis)


def scatter_nd(g: Builder, x: Value, index: Value, source: Value, reduction: str = "none") -> Value:
    """ScatterND is there from opset 11; add and mul came in 16, max and min in 18."""
    if reduction == "none":
        return g.op("ScatterND", x, index, source)
    g.require(18 if reduction in ("max", "min") else 16, f"a scatter that reduces by {reduction}")
    return g.cast(g.op("ScatterND", _reducible(g, x), index, _reducible(g, source), reduction=reduction), x.dtype)


def _reducible(g: Builder, x: Value) -> Value:
    """ONNX Runtime's scatters reduce all numbers but those of 16-bit floating point."""
    return g.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def gather_elements(g: Builder, x: Value, index: Value, axis: int) -> Value:
    """GatherElements is there from opset 11; before that static shapes can be gathered from a flat view."""
    if g.opset >= 11:
        return g.op("GatherElements", x, index, axis=axis)
    sizes, index_sizes = static_sizes(x.shape), static_sizes(index.shape)
    if sizes is None or index_sizes is None:
        g.require(11, "gathering single elements where sizes are only known at run time")
    assert sizes is not None and index_sizes is not None
    steps = [math.prod(sizes[i + 1 :]) for i in range(x.rank)]
    offset = torch.zeros([], dtype=torch.int64)
    for i, size in enumerate(index_sizes):
        if i != axis:
            positions = torch.arange(size) * steps[i]
            offset = offset + positions.reshape([-1 if j == i else 1 for j in range(x.rank)])
    position = g.op("Add", g.op("Mul", g.cast(index, torch.int64), steps[axis]), g.constant(offset))
    return g.op("Gather", g.op("Reshape", x, [-1]), position, axis=0)
