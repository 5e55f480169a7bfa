"""median, quantile, mode, and their variants that ignore NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from onnxport.graph.sizes import product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import AnySize, Value
from onnxport.lower.value_ranges import may_be_nan
from onnxport.ops.reduction import nan_order
from onnxport.ops.reduction.reduction import may_be_empty


@dataclass(frozen=True)
class Ordered:
    """A tensor sorted along its last axis, NaN last or as infinity, with the original indices of the elements.

    ``source`` is the tensor itself, ``nan`` a mask of its NaN elements; None if it cannot have any.
    """

    values: Value
    indices: Value
    source: Value
    nan: Value | None

    @property
    def size(self) -> AnySize:
        assert self.values.shape is not None
        return self.values.shape[-1]

    def count(self, g: Builder) -> Value:
        """The number of elements that are not NaN, with the axis kept."""
        assert self.nan is not None
        numbers = g.cast(g.op("Not", self.nan), torch.int64)
        return emit.reduce(g, "ReduceSum", numbers, [self.values.rank - 1], keepdims=True)

    def any_nan(self, g: Builder) -> Value:
        return nan_order.any_nan(g, self.source, [self.source.rank - 1], keepdims=True)


def _ordered(g: Builder, x: Value, *, passes_nan: bool, nan_last: bool = False) -> Ordered:
    """Sorting with NaN as infinity takes fewer nodes, where the order among infinities does not matter."""
    last = x.rank - 1
    size = (x.shape or ())[last]
    if not (may_be_nan(x) if passes_nan else nan_order.is_exact(g, x)):
        return Ordered(*emit.topk(g, x, size, last, largest=False), x, nan=None)
    nan = emit.is_nan(g, x)
    if nan_last:
        g.require(9, "an order with NaN last")
        return Ordered(*nan_order.topk_with_nan_above(g, x, size, last, largest=False), x, nan)
    numbers = emit.where(g, nan, math.inf, x, x.dtype)
    return Ordered(*emit.topk(g, numbers, size, last, largest=False), x, nan)


def _to_last(g: Builder, x: Value, dim: int | None) -> Value:
    """The tensor with the axis moved last, or flattened without an axis."""
    assert x.shape is not None
    if dim is None or x.rank == 0:
        return emit.reshape(g, x, [product(x.shape)])
    axis = dim % x.rank
    return emit.transpose(g, x, [*(i for i in range(x.rank) if i != axis), axis])


def _with_one(g: Builder, values: Value) -> Value:
    """A vector with torch's median of an empty tensor appended."""
    nothing = math.nan if values.dtype.is_floating_point else torch.iinfo(values.dtype).min
    return g.op("Concat", values, g.constant(torch.tensor([nothing], dtype=values.dtype)), axis=0)


def _median(passes_nan: bool) -> Converter:
    """The lower one of the two middle elements. A NaN is the median unless NaN is ignored."""

    def convert(g: Builder, self: Value, dim: int | None = None, keepdim: bool = False) -> Value | tuple[Value, Value]:
        x = _to_last(g, self, dim)
        last = x.rank - 1
        found = _ordered(g, x, passes_nan=passes_nan, nan_last=passes_nan)
        middle = sizes.vector(g, [(sizes.known(found.size) - 1) // 2])  # type: ignore[operator]
        if dim is None and may_be_empty(g, x, None):
            found = replace(found, values=_with_one(g, found.values))
            middle = g.op(
                "Div", g.op("Sub", g.op("Shape", x), 1), 2
            )  # rounds -1 to 0, torch's median of an empty tensor
        if found.nan is None or not passes_nan:
            value, index = (g.op("Gather", part, middle, axis=last) for part in (found.values, found.indices))
        else:
            # Without numbers it is 0, because division rounds to zero: the first NaN.
            half = g.op("Div", g.op("Sub", found.count(g), 1), 2)
            value, index = (emit.gather_elements(g, part, half, last) for part in (found.values, found.indices))
        if found.nan is not None and not passes_nan:
            first = g.op("ArgMax", g.cast(found.nan, torch.int32), axis=last, keepdims=1)
            nothing = found.any_nan(g)
            value, index = emit.where(g, nothing, math.nan, value, x.dtype), g.op("Where", nothing, first, index)
        results = [emit.reshape(g, part, output.shape) for part, output in zip((value, index), g.outputs, strict=False)]
        return results[0] if len(results) == 1 else (results[0], results[1])

    return convert


MEDIANS = entries(_median, {"aten::median": False, "aten::nanmedian": True})


def _quantile(passes_nan: bool) -> Converter:
    def convert(
        g: Builder,
        self: Value,
        q: Value | float,
        dim: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Value:
        x = _to_last(g, self, dim)
        found = _ordered(g, x, passes_nan=passes_nan)
        shares = emit.reshape(g, g.cast(q, x.dtype), [-1])
        between = _interpolated(g, found, _ranks(g, found, shares, passes_nan), interpolation)
        result = between
        if found.nan is not None:
            nothing = emit.equal(g, found.count(g), 0) if passes_nan else found.any_nan(g)
            result = emit.where(g, nothing, math.nan, between, x.dtype)
        # The quantiles are the first axis of the result.
        rank = x.rank
        if len(g.outputs[0].shape) > 0 and isinstance(q, Value) and q.rank == 1:
            result = emit.transpose(g, g.typed(result, x.dtype), [rank - 1, *range(rank - 1)])
        return emit.reshape(g, result, g.outputs[0].shape)

    return convert


QUANTILES = entries(_quantile, {"aten::quantile": False, "aten::nanquantile": True})


def _ranks(g: Builder, found: Ordered, shares: Value, passes_nan: bool) -> Value:
    """The ranks, with fractions: for all rows together, or for each row if it has its own count."""
    dtype = found.values.dtype
    if passes_nan and found.nan is not None:
        last = g.cast(g.op("Max", g.op("Sub", found.count(g), 1), 0), dtype)
        return g.op("Mul", last, shares)
    size = sizes.known(found.size)
    if isinstance(size, int) and shares.data is not None:
        return g.constant(shares.data * (size - 1), dtype)
    return g.op("Mul", shares, g.cast(g.op("Sub", sizes.scalar(g, found.size), 1), dtype))


def _interpolated(g: Builder, found: Ordered, ranks: Value, interpolation: str) -> Value:
    if interpolation in ("lower", "higher", "nearest"):
        rounding = {"lower": "Floor", "higher": "Ceil", "nearest": "Round"}[interpolation]
        return _at(g, found, _rounded(g, ranks, rounding))
    below = _rounded(g, ranks, "Floor")
    low, high = _at(g, found, below), _at(g, found, _rounded(g, ranks, "Ceil"))
    weight = g.constant(0.5, ranks.dtype) if interpolation == "midpoint" else g.op("Sub", ranks, below)
    # Nothing is added where both are equal, so that infinities stay.
    way = emit.where(g, emit.equal(g, low, high), 0.0, g.op("Sub", high, low), low.dtype)
    return g.op("Add", low, g.op("Mul", weight, way))


def _rounded(g: Builder, ranks: Value, rounding: str) -> Value:
    if ranks.data is not None:
        function = {"Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round}[rounding]
        return g.constant(function(ranks.data))
    return emit.round_(g, ranks) if rounding == "Round" else g.op(rounding, ranks)


def _at(g: Builder, found: Ordered, ranks: Value) -> Value:
    indices = g.cast(ranks, torch.int64)
    last = found.values.rank - 1
    if ranks.rank == 1 and found.values.rank > 1:
        return g.op("Gather", found.values, indices, axis=last)
    return emit.gather_elements(g, found.values, indices, last)


@converter("aten::mode")
def mode(g: Builder, self: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)

    The most frequent element, the smallest of several, and its last index. NaN equals nothing.
    """
    if self.rank == 0:
        return self, g.constant(0, torch.int64)
    moved = _to_last(g, self, dim)
    x = g.cast(moved, torch.int32) if self.dtype == torch.bool else moved
    last = x.rank - 1
    assert x.shape is not None
    equal = emit.equal(g, emit.unsqueeze(g, x, [last + 1]), emit.unsqueeze(g, x, [last]))
    counts = emit.reduce(g, "ReduceSum", g.cast(equal, torch.int64), [last + 1], keepdims=False)
    frequent = emit.equal(g, counts, emit.reduce(g, "ReduceMax", counts, [last], keepdims=True))
    beyond = math.inf if x.is_float else torch.iinfo(x.dtype).max
    candidates = emit.where(g, frequent, x, beyond, x.dtype)
    if x.is_float:
        least = emit.reduce(g, "ReduceMin", candidates, [last], keepdims=True)
    else:
        least = nan_order.extreme(g, candidates, [last], keepdims=True, largest=False)
    chosen = g.op("And", frequent, emit.equal(g, x, least))
    # If all are NaN, nothing is selected, and the first is taken.
    indices = emit.where(g, chosen, emit.counting(g, x.shape[last]), 0, torch.int64)
    index = emit.reduce(g, "ReduceMax", indices, [last], keepdims=True)
    value = g.cast(emit.gather_elements(g, x, index, last), self.dtype)
    return emit.reshape(g, value, g.outputs[0].shape), emit.reshape(g, index, g.outputs[1].shape)
