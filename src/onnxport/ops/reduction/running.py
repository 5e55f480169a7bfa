"""cummax, cummin and logcumsumexp."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnxport.graph.sizes import Shape
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import wide
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Value
from onnxport.ops.reduction.nan_order import is_exact

# A step of a Scan: the new states from the states and one slice of each scanned value.
Step = Callable[[Builder, list[Value], list[Value]], Sequence[Value]]


def scan(
    g: Builder, states: list[Value], scanned: list[Value], axes: Sequence[int], step: Step, *, last: bool = False
) -> list[Value]:
    """The states after each slice, stacked along the first of the axes; with ``last`` only the last states."""
    entries = [(state.dtype, state.shape) for state in states]
    entries += [(value.dtype, without(value.shape, axis)) for value, axis in zip(scanned, axes, strict=True)]
    count = len(states)

    def body(inner: Builder, inputs: list[Value]) -> list[Value]:
        new = list(step(inner, inputs[:count], inputs[count:]))
        return new if last else [*new, *(inner.op("Identity", value) for value in new)]

    results = g.op(
        "Scan",
        *states,
        *scanned,
        outputs=count if last else 2 * count,
        body=g.subgraph("step", entries, body),
        num_scan_inputs=len(scanned),
        scan_input_axes=list(axes),
        scan_output_axes=None if last else [axes[0]] * count,
    )
    for final, state in zip(results, states, strict=False):
        g.typed(final, state.dtype, state.shape)
    for after, state in zip(results[count:], states, strict=False):
        g.typed(after, state.dtype, _with(state.shape, axes[0], scanned[0].shape))
    return list(results[:count] if last else results[count:])


def without(shape: Shape | None, axis: int) -> Shape | None:
    return None if shape is None else shape[:axis] + shape[axis + 1 :]


def _with(shape: Shape | None, axis: int, of: Shape | None) -> Shape | None:
    """The shape with an axis inserted that has the size of an axis of another value."""
    return None if shape is None or of is None else (*shape[:axis], of[axis], *shape[axis:])


def _running_extreme(comparison: str, largest: bool) -> Converter:
    """Of equal elements the index is that of the last one; from the first NaN on it is that of the last NaN."""

    def convert(g: Builder, self: Value, dim: int) -> tuple[Value, Value]:
        assert self.shape is not None
        if self.rank == 0:
            return self, g.constant(0, torch.int64)
        axis = dim % self.rank
        if 0 in self.shape:
            return self, emit.filled(g, self.shape, 0, torch.int64)
        g.require(9, "a cumulative maximum or minimum")
        x = g.cast(self, torch.int32) if self.dtype == torch.bool else self
        rest = without(self.shape, axis) or ()
        states = [emit.filled(g, rest, _outmost(x.dtype, largest), x.dtype), emit.filled(g, rest, 0, torch.int64)]

        def step(inner: Builder, states: list[Value], slices: list[Value]) -> list[Value]:
            kept = inner.op(comparison, slices[0], states[0])
            if is_exact(g, x):
                only = inner.op("And", inner.op("IsNaN", states[0]), inner.op("Not", inner.op("IsNaN", slices[0])))
                kept = inner.op("Or", kept, only)
            index = emit.expand(inner, slices[1], rest)
            return [inner.op("Where", kept, states[0], slices[0]), inner.op("Where", kept, states[1], index)]

        values, indices = scan(g, states, [x, emit.counting(g, self.shape[axis])], [axis, 0], step)
        return g.cast(values, self.dtype), indices

    return convert


def _outmost(dtype: torch.dtype, largest: bool) -> float | int:
    """The initial value: no element is smaller (for a maximum) or larger (for a minimum)."""
    if dtype.is_floating_point:
        return float("-inf") if largest else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if largest else limits.max


EXTREMES = entries(_running_extreme, {"aten::cummax": ("Less", True), "aten::cummin": ("Greater", False)})


@converter("aten::logcumsumexp", "aten::_logcumsumexp")
def logcumsumexp(g: Builder, self: Value, dim: int) -> Value:
    """aten::logcumsumexp(Tensor self, int dim) -> Tensor

    Step by step, because with one common factor for the whole axis small elements would underflow.
    """
    assert self.shape is not None
    if self.rank == 0 or 0 in self.shape:
        return self
    g.require(9, "a cumulative logarithm of sums")
    axis = dim % self.rank
    x = g.cast(self, wide(self.dtype))
    start = emit.filled(g, without(self.shape, axis) or (), float("-inf"), x.dtype)

    def step(inner: Builder, states: list[Value], slices: list[Value]) -> list[Value]:
        high, low = inner.op("Max", states[0], slices[0]), inner.op("Min", states[0], slices[0])
        rest = inner.op("Log", inner.op("Add", inner.op("Exp", inner.op("Sub", low, high)), 1.0))
        infinite = inner.op("Greater", inner.op("Abs", high), torch.finfo(x.dtype).max)
        return [inner.op("Where", infinite, high, inner.op("Add", high, rest))]

    return g.cast(scan(g, [start], [x], [axis], step)[0], self.dtype)
