"""The weights of interpolation along one axis, computed at run time."""

from __future__ import annotations

from dataclasses import dataclass

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value

# How far a cubic kernel reaches.
CUBIC_REACH = 2


@dataclass(frozen=True)
class Weights:
    """Linear or cubic interpolation from ``before`` pixels to ``after``, each ``scale`` pixels from the one before it.

    Antialiasing widens the kernel where an image becomes smaller, and leaves out what is beyond the edges.
    """

    mode: str
    antialias: bool
    scale: Value
    before: Value
    after: Value

    @property
    def beyond(self) -> int:
        """How many pixels have to be repeated at each edge."""
        return CUBIC_REACH if self.mode == "cubic" and not self.antialias else 0

    def rows(self, g: Builder) -> Value:
        """A row of weights for each pixel of the result."""
        dtype, scale = self.scale.dtype, self.scale
        if self.mode == "linear" or self.antialias:  # an axis that keeps its size is copied
            scale = emit.where(g, emit.equal(g, self.before, self.after), 1.0, scale, dtype)
        centres = g.op("Add", g.cast(emit.counting(g, self.after), dtype), 0.5)
        centres = g.op("Sub", g.op("Mul", centres, scale), 0.5)
        if self.mode == "linear" and not self.antialias:
            last = g.op("Sub", g.cast(self.before, dtype), 1.0)
            centres = g.op("Min", g.op("Max", centres, 0.0), last)
        count = g.op("Add", self.before, 2 * self.beyond) if self.beyond else self.before
        pixels = g.cast(emit.counting(g, count), dtype)
        pixels = g.op("Sub", pixels, float(self.beyond)) if self.beyond else pixels
        distances = g.op("Abs", g.op("Sub", emit.unsqueeze(g, centres, [1]), pixels))
        if not self.antialias:
            return self._kernel(g, distances)
        weights = self._kernel(g, g.op("Div", distances, g.op("Max", scale, 1.0)))
        return g.op("Div", weights, emit.reduce(g, "ReduceSum", weights, [1], True))

    def _kernel(self, g: Builder, distances: Value) -> Value:
        if self.mode == "linear":
            return g.op("Max", g.op("Sub", 1.0, distances), 0.0)
        a = -0.5 if self.antialias else -0.75
        far = g.op("Min", distances, float(CUBIC_REACH))
        inner = _polynomial(g, distances, [a + 2, -(a + 3), 0, 1])
        outer = _polynomial(g, far, [a, -5 * a, 8 * a, -4 * a])
        return emit.where(g, g.op("Less", distances, 1.0), inner, outer, distances.dtype)


def _polynomial(g: Builder, x: Value, coefficients: list[float]) -> Value:
    first, *others = coefficients
    result = g.op("Mul", x, float(first))
    for place, number in enumerate(others):
        result = g.op("Add", result, float(number)) if number else result
        result = g.op("Mul", result, x) if place < len(others) - 1 else result
    return result
