"""Emitters that gather and scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from onnxport.graph.sizes import Shape, Size, product
from onnxport.lower import sizes
from onnxport.lower.emit.axes import unsqueeze
from onnxport.lower.emit.selection import maximum, minimum
from onnxport.lower.emit.shaping import counting, expand, reshape
from onnxport.lower.loops import Step, loop
from onnxport.lower.value import AnySize, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

# The first opset with this reduction in scatters, and the operator that reduces two numbers before.
FIRST_REDUCING = {"add": 16, "mul": 16, "max": 18, "min": 18}
JOINS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "add": lambda g, x, y: g.op("Add", x, y),
    "mul": lambda g, x, y: g.op("Mul", x, y),
    "max": maximum,
    "min": minimum,
}


def topk(
    g: Builder, x: Value, k: AnySize, axis: int, largest: bool = True, sorted_: bool = True
) -> tuple[Value, Value]:
    """k is an input from opset 10; the smallest elements can be selected from 11."""
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
                g.require(10, "a k that is only known at run time")
            values, indices = g.op("TopK", source, outputs=2, axis=axis, k=k)
        values = values if largest else g.op("Neg", values)
    shape = _with(x, axis, sizes.known(k))
    return g.typed(values, x.dtype, shape), g.typed(indices, torch.int64, shape)


def _with(x: Value, axis: int, size: Size | None) -> Shape | None:
    if x.shape is None or size is None:
        return None
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])


def scatter_elements(g: Builder, x: Value, index: Value, source: Value, axis: int, reduction: str = "none") -> Value:
    """Scatter became ScatterElements in opset 11; add and mul were added in 16, max and min in 18.

    Before, a Loop reduces the elements one index at a time.
    """
    if reduction == "none":
        return g.op("ScatterElements" if g.opset >= 11 else "Scatter", x, index, source, axis=axis)
    if g.opset < FIRST_REDUCING[reduction]:
        return _scattered_in_steps(g, x, index, source, axis, reduction)
    wide, updates = _reducible(g, x), _reducible(g, source)
    return g.cast(g.op("ScatterElements", wide, index, updates, axis=axis, reduction=reduction), x.dtype)


def _scattered_in_steps(g: Builder, x: Value, index: Value, source: Value, axis: int, reduction: str) -> Value:
    """A Loop over the indices along the axis: within one iteration no target occurs twice."""
    g.require(9, "ONNX's Scatter")
    assert index.shape is not None

    def step(inner: Builder, iteration: Value, states: list[Value]) -> Step:
        (joined,) = states
        at = unsqueeze(inner, iteration, [0])
        indices, updates = (inner.op("Gather", value, at, axis=axis) for value in (index, source))
        new = JOINS[reduction](inner, gather_elements(inner, joined, indices, axis), updates)
        return Step([scatter_elements(inner, joined, indices, new, axis)])

    (result,), _ = loop(g, index.shape[axis], [x], step)
    return result


def scatter_nd(g: Builder, x: Value, index: Value, source: Value, reduction: str = "none") -> Value:
    """ScatterND from opset 11; add and mul were added in 16, max and min in 18. Before, a scatter of rows."""
    if g.opset < (11 if reduction == "none" else FIRST_REDUCING[reduction]):
        return _scattered_rows(g, x, index, source, reduction)
    if reduction == "none":
        return g.op("ScatterND", x, index, source)
    return g.cast(g.op("ScatterND", _reducible(g, x), index, _reducible(g, source), reduction=reduction), x.dtype)


def _scattered_rows(g: Builder, x: Value, index: Value, source: Value, reduction: str) -> Value:
    """A scatter after the indexed axes are flattened to one, and the others to another."""
    if x.shape is None or index.shape is None or not isinstance(index.shape[-1], int):
        g.require(11 if reduction == "none" else FIRST_REDUCING[reduction], "a scatter to data-dependent indices")
    assert x.shape is not None and index.shape is not None
    count = index.shape[-1]
    assert isinstance(count, int)
    lead, rest = x.shape[:count], product(x.shape[count:])
    rows: Value | None = None
    for axis, size in enumerate(lead):
        offset = g.op("Gather", g.cast(index, torch.int64), g.constant(axis, torch.int64), axis=index.rank - 1)
        offset = g.op("Mul", not_negative(g, offset, size), sizes.scalar(g, product(lead[axis + 1 :])))
        rows = offset if rows is None else g.op("Add", rows, offset)
    assert rows is not None
    many = product(index.shape[:-1])
    indices = expand(g, reshape(g, g.typed(rows, torch.int64, index.shape[:-1]), [many, 1]), [many, rest])
    flat, updates = reshape(g, x, [product(lead), rest]), reshape(g, source, [many, rest])
    return reshape(g, g.typed(scatter_elements(g, flat, indices, updates, 0, reduction), x.dtype, flat.shape), x.shape)


def not_negative(g: Builder, index: Value, size: Size) -> Value:
    """Negative indices made non-negative."""
    if index.data is not None:
        return index if bool((index.data >= 0).all()) or not isinstance(size, int) else g.constant(index.data % size)
    below = g.cast(g.op("Less", index, 0), torch.int64)
    return g.op("Add", index, g.op("Mul", below, sizes.scalar(g, size)))


def _reducible(g: Builder, x: Value) -> Value:
    """ONNX Runtime's scatters reduce all numbers except 16-bit floats."""
    return g.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def gather_elements(g: Builder, x: Value, index: Value, axis: int) -> Value:
    """GatherElements from opset 11; before, a Gather from the flattened tensor."""
    if g.opset >= 11:
        return g.op("GatherElements", x, index, axis=axis)
    assert x.shape is not None and index.shape is not None
    offset = g.op("Mul", g.cast(index, torch.int64), sizes.scalar(g, product(x.shape[axis + 1 :])))
    static = torch.zeros([], dtype=torch.int64)
    for i, size in enumerate(index.shape):
        step = product(x.shape[i + 1 :])
        column = [-1 if j == i else 1 for j in range(x.rank)]
        if i == axis:
            continue
        if isinstance(size, int) and isinstance(step, int):
            static = static + (torch.arange(size) * step).reshape(column)
        else:
            g.require(9, "gathering single elements with sizes that are only known at run time")
            steps = g.op("Mul", counting(g, size), sizes.scalar(g, step))
            offset = g.op("Add", offset, g.op("Reshape", steps, column))
    if static.dim():
        offset = g.op("Add", offset, g.constant(static))
    return g.typed(g.op("Gather", g.op("Reshape", x, [-1]), offset, axis=0), x.dtype, index.shape)
