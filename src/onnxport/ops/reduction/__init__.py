"""Operators along axes: sums, maxima, norms, sorting, cumulative sums, histograms.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.reduction import (
    cumulative,
    histogram,
    nan_order,
    norms,
    quantiles,
    reduction,
    running,
    segments,
    sort,
    statistics,
    unique,
)
