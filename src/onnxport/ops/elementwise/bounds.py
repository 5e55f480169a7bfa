"""maximum, minimum and clamp.

ONNX Runtime's Max, Min and Clip compare the halves of 64-bit integers, and treat the lower half as signed: two integers
with the same upper half may come out in the wrong order. Integers that are not known to fit into 32 bits are compared
with Less and selected with Where instead.
"""

from __future__ import annotations

import math

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import result_type
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value
from onnxport.lower.value_ranges import fits_32_bits, may_be_nan


def extremum(g: Builder, x: Value, y: Value, *, larger: bool) -> Value:
    """The larger or the smaller one, element by element."""
    if g.opset >= 9 and not (fits_32_bits(x) and fits_32_bits(y)):
        return g.op("Where", g.op("Greater" if larger else "Less", x, y), x, y)
    return emit.maximum(g, x, y) if larger else emit.minimum(g, x, y)


def bounded(g: Builder, x: Value, low: Operand | None, high: Operand | None) -> Value:
    """Nothing below ``low``, then nothing above ``high``."""
    if fits_32_bits(x) and all(fits_32_bits(bound) for bound in (low, high) if isinstance(bound, Value)):
        return emit.clip(g, x, low, high)
    if low is not None:
        x = extremum(g, x, g.cast(low, x.dtype), larger=True)
    return x if high is None else extremum(g, x, g.cast(high, x.dtype), larger=False)


def _extremum(larger: bool) -> Converter:
    def convert(g: Builder, self: Operand, other: Operand) -> Value:
        return extremum(g, *g.promoted(self, other), larger=larger)

    return convert


def _extremum_but_nan(larger: bool) -> Converter:
    def convert(g: Builder, self: Value, other: Value) -> Value:
        left, right = g.promoted(self, other)
        result = extremum(g, left, right, larger=larger)
        for value, other_value in ((right, left), (left, right)):
            if may_be_nan(value):
                result = g.op("Where", emit.is_nan(g, value), other_value, result)
        return result

    return convert


EXTREMA = entries(
    _extremum, {"aten::maximum": True, "aten::max.other": True, "aten::minimum": False, "aten::min.other": False}
)
EXTREMA_BUT_NAN = entries(_extremum_but_nan, {"aten::fmax": True, "aten::fmin": False})


@converter("aten::clamp", "aten::clip", "aten::clamp_min", "aten::clamp_max")
def clamp(g: Builder, self: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    """aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    dtype = result_type(self, *(bound for bound in (min, max) if bound is not None))
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (min, max)):
        return emit.filled(g, self.shape or (), math.nan, dtype)
    return bounded(g, g.cast(self, dtype), min, max)
