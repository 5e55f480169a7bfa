"""Functions that ONNX does not have, by polynomials on small intervals.

The coefficients are fitted at export to torch's own function in double precision, and stored as a table. The
coefficients for an argument's interval are gathered at run time, and the polynomial is evaluated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value

DEGREES = {torch.float32: 3, torch.float64: 5}
STRETCHES = 512

Function = Callable[[torch.Tensor], torch.Tensor]


@functools.cache
def _coefficients(function: Function, low: float, high: float, stretches: int, degree: int) -> torch.Tensor:
    """The polynomials of all intervals, each in a variable from -1/2 to 1/2."""
    points = np.polynomial.chebyshev.chebpts1(degree + 1)
    width = (high - low) / stretches
    samples = low + (np.arange(stretches)[:, None] + 0.5 + points / 2) * width
    heights = function(torch.from_numpy(samples)).numpy()
    series = np.linalg.solve(np.polynomial.chebyshev.chebvander(points, degree), heights.T)
    return torch.from_numpy(series.T @ _powers(degree))


def _powers(degree: int) -> np.ndarray:
    """The coefficients of each Chebyshev polynomial of twice the variable."""
    rows = np.zeros((degree + 1, degree + 1))
    for k in range(degree + 1):
        rows[k, : k + 1] = np.polynomial.chebyshev.cheb2poly(np.eye(degree + 1)[k, : k + 1])
    return rows * 2.0 ** np.arange(degree + 1)


def tabulated(g: Builder, x: Value, functions: Sequence[Function], low: float, high: float) -> list[Value]:
    """The functions of x between the bounds. Results outside are arbitrary; NaN propagates."""
    position = g.op("Mul", g.op("Sub", x, low) if low else x, STRETCHES / (high - low))
    index = emit.clip(g, g.cast(position, torch.int64), 0, STRETCHES - 1)
    within = g.op("Sub", position, g.op("Add", g.cast(index, x.dtype), 0.5))
    results = []
    for function in functions:
        columns = _coefficients(function, low, high, STRETCHES, DEGREES[x.dtype]).unbind(1)
        gathered = [g.op("Gather", g.constant(column, x.dtype), index, axis=0) for column in columns]
        result = gathered.pop()
        while gathered:
            result = g.op("Add", g.op("Mul", result, within), gathered.pop())
        results.append(result)
    return results
