"""Window functions: constants, or computed if the length is only known at run time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from onnxport.graph.interpret import operator
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Entry
from onnxport.lower.value import AnySize, Value
from onnxport.ops.special.bessel import modified_bessel


def _window(g: Builder, window_length: AnySize, **options: Any) -> Value:
    """aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    assert g.origin is not None
    settings = {name: options[name] for name in ("periodic", "alpha", "beta") if name in options}
    if any(isinstance(value, Value) for value in settings.values()):
        g.unsupported("a window with parameters that are only known at run time")
    if not isinstance(window_length, int):
        kind = g.origin.op.removeprefix("aten::").removesuffix("_window")
        return _computed_window(g, kind, window_length, **settings)
    function = operator(g.origin.op, g.origin.overload)
    return g.constant(function(window_length, *settings.values(), dtype=g.outputs[0].dtype))


def _computed_window(g: Builder, kind: str, length: AnySize, *, periodic: bool = True, **shape: float) -> Value:
    """A window of a length that is only known at run time. A window of length 1 is 1."""
    dtype = g.outputs[0].dtype
    count = g.cast(sizes.scalar(g, length), torch.float64)
    last = count if periodic else g.op("Sub", count, 1.0)
    position = g.op(
        "Div", g.cast(emit.counting(g, length), torch.float64), emit.maximum(g, last, g.cast(1.0, last.dtype))
    )
    window = WINDOW_SHAPES[kind](g, position, **shape)
    is_single = g.op("Less", count, 1.5)
    return g.typed(g.cast(emit.where(g, is_single, 1.0, window), dtype), dtype, g.outputs[0].shape)


def _cosines(*defaults: float) -> Callable[..., Value]:
    """A sum of cosines of harmonics 0, 1, 2, ...; some windows have parameters for the first two factors."""

    def window(g: Builder, position: Value, alpha: float | None = None, beta: float | None = None) -> Value:
        factors = [alpha if alpha is not None else defaults[0], -(beta if beta is not None else defaults[1])]
        result = g.constant(factors[0], torch.float64)
        for harmonic, factor in enumerate([factors[1], *defaults[2:]], start=1):
            cosine = g.op("Cos", g.op("Mul", position, 2 * math.pi * harmonic))
            result = g.op("Add", result, g.op("Mul", cosine, factor))
        return result

    return window


def _triangle(g: Builder, position: Value) -> Value:
    from_middle = g.op("Abs", g.op("Sub", g.op("Mul", position, 2.0), 1.0))
    return g.op("Add", g.op("Neg", from_middle), 1.0)


def _kaiser(g: Builder, position: Value, beta: float = 12.0) -> Value:
    from_middle = g.op("Sub", g.op("Mul", position, 2.0), 1.0)
    inside = emit.clip(g, g.op("Add", g.op("Neg", g.op("Mul", from_middle, from_middle)), 1.0), 0.0, None)
    bell = modified_bessel(g, g.op("Mul", g.op("Sqrt", inside), beta), 0, scaled=False)
    return g.op("Div", bell, float(torch.i0(torch.tensor(beta, dtype=torch.float64))))


WINDOW_SHAPES: dict[str, Callable[..., Value]] = {
    "hann": _cosines(0.5, 0.5),
    "hamming": _cosines(0.54, 0.46),
    "blackman": _cosines(0.42, 0.5, 0.08),
    "bartlett": _triangle,
    "kaiser": _kaiser,
}

WINDOWS = [Entry((f"aten::{kind}_window",), _window) for kind in ("bartlett", "blackman", "hamming", "hann", "kaiser")]
