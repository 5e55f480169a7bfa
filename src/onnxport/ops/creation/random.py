"""Random numbers with torch's distributions, but not its generator: two runs differ.

ONNX's random operators are used at every opset. ONNX Runtime 1.31 has no kernels for those of opset 22, and no other
source of random numbers there: it folds a Dropout of a constant.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxport.graph.sizes import Shape, is_static
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, Entry, converter
from onnxport.lower.value import AnySize, Operand, Value

# The bounds of RandomUniform are float32 attributes.
EXACT_IN_FLOAT32 = 2**24
SMALLEST_NORMAL = 2.0**-126


def uniform_like(g: Builder, x: Value, low: float = 0.0, high: float = 1.0) -> Value:
    """Uniform numbers in the shape and dtype of a value."""
    assert x.shape is not None
    return _drawn(g, "RandomUniform", x.shape, x.dtype, x, low=float(low), high=float(high))


def chosen(g: Builder, like: Value, p: Operand) -> Value:
    """A mask in the shape of a value, true with probability p."""
    dtype = p.dtype if isinstance(p, Value) else torch.float32
    return g.op("Less", _drawn(g, "RandomUniform", like.shape or (), dtype, like), p)


def chosen_of_shape(g: Builder, shape: Shape, p: float) -> Value:
    """A mask of this shape, true with probability p."""
    return g.op("Less", _drawn(g, "RandomUniform", shape, torch.float32), p)


def _drawn(
    g: Builder, op: str, shape: Shape, dtype: torch.dtype, like: Value | None = None, **attributes: Any
) -> Value:
    """A random node in float32 or float64; the runtime has kernels only for these."""
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    if like is not None and like.shape == shape:
        result = g.op(f"{op}Like", like, dtype=kind, **attributes)
    elif is_static(shape):
        result = g.typed(g.op(op, shape=list(shape), dtype=kind, **attributes), kind, shape)
    else:
        result = g.op(f"{op}Like", emit.filled(g, shape, 0, kind), dtype=kind, **attributes)
    return g.cast(result, dtype)


def _output(g: Builder) -> tuple[Shape, torch.dtype]:
    return g.outputs[0].shape, g.outputs[0].dtype


def _creation(op: str) -> Converter:
    def convert(g: Builder, self: Value | None = None, **_: Any) -> Value:
        return _drawn(g, op, *_output(g), self)

    return convert


CREATION = [
    Entry(("aten::rand", "aten::rand_like"), _creation("RandomUniform")),
    Entry(("aten::randn", "aten::randn_like"), _creation("RandomNormal")),
]


@converter("aten::randint", "aten::randint_like")
def randint(g: Builder, high: AnySize, low: AnySize = 0, self: Value | None = None, **_: Any) -> Value:
    """aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    return _integers(g, low, high, self)


@converter("aten::random")
def random(g: Builder, self: Value, to: int | None = None, **bounds: Any) -> Value:
    """aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor"""
    if to is None and self.is_float:
        to = int(2 / torch.finfo(self.dtype).eps) + 1
    elif to is None:
        to = 2 if self.dtype == torch.bool else torch.iinfo(self.dtype).max + 1
    return _integers(g, bounds.get("from", 0), to, self)


def _integers(g: Builder, low: AnySize, high: AnySize, like: Value | None) -> Value:
    """Integers from low to high, exclusive. Drawn in float64: float32 would round some up to the bound."""
    shape, dtype = _output(g)
    bounds = [bound for bound in (low, high) if isinstance(bound, int) and abs(bound) <= EXACT_IN_FLOAT32]
    if len(bounds) == 2:
        real = _drawn(g, "RandomUniform", shape, torch.float64, like, low=float(bounds[0]), high=float(bounds[1]))
    else:
        start, end = (_bound(g, bound) for bound in (low, high))
        real = _drawn(g, "RandomUniform", shape, torch.float64, like)
        real = g.op("Add", g.op("Mul", real, g.op("Sub", end, start)), start)
    truncates = not dtype.is_floating_point and dtype != torch.bool and isinstance(low, int) and low >= 0
    return g.cast(real if truncates else g.op("Floor", real), dtype)


def _bound(g: Builder, bound: AnySize) -> Value:
    if isinstance(bound, int):
        return g.constant(float(bound), torch.float64)
    return g.cast(bound if isinstance(bound, Value) and bound.size is None else sizes.scalar(g, bound), torch.float64)


@converter("aten::bernoulli")
def bernoulli(g: Builder, self: Value, p: Operand | None = None, generator: object = None) -> Value:
    """aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    # Not ONNX's Bernoulli: by its definition, and in the runtime, it is true with probability 1 - p.
    return g.cast(chosen(g, self, self if p is None else p), self.dtype)


@converter("aten::multinomial")
def multinomial(
    g: Builder, self: Value, num_samples: AnySize, replacement: bool = False, generator: object = None
) -> Value:
    """aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""  # noqa: E501
    if not replacement and num_samples != 1:
        # Draw arrival times of processes with these rates, and take the first to arrive.
        rates = g.op("Div", self, _exponential(g, self))
        return emit.topk(g, rates, num_samples, self.rank - 1)[1]
    if not isinstance(num_samples, int):
        g.unsupported("ONNX's Multinomial takes a constant number of samples")
    batch = emit.unsqueeze(g, self, [0]) if self.rank == 1 else self
    logarithm = g.cast(g.op("Log", batch), torch.float32)
    drawn = g.op("Multinomial", logarithm, dtype=torch.int64, sample_size=num_samples)
    assert batch.shape is not None
    drawn = g.typed(drawn, torch.int64, (batch.shape[0], num_samples))
    return emit.squeeze(g, drawn, [0]) if self.rank == 1 else drawn


@converter("aten::normal")
def normal(g: Builder, mean: Operand, std: Operand = 1.0, **_: Any) -> Value:
    """aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    if not isinstance(mean, Value) and not isinstance(std, Value):
        return _drawn(g, "RandomNormal", *_output(g), mean=float(mean), scale=float(std))
    like = next(value for value in (mean, std) if isinstance(value, Value))
    result = _drawn(g, "RandomNormal", *_output(g), like)
    result = result if std == 1 else g.op("Mul", result, std)
    return result if mean == 0 else g.op("Add", result, mean)


@converter("aten::normal_functional")
def normal_functional(g: Builder, self: Value, mean: float = 0.0, std: float = 1.0, generator: object = None) -> Value:
    """aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return _drawn(g, "RandomNormal", *_output(g), self, mean=float(mean), scale=float(std))


@converter("aten::log_normal")
def log_normal(g: Builder, self: Value, mean: float = 1.0, std: float = 2.0, generator: object = None) -> Value:
    """aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor"""
    return g.op("Exp", normal_functional(g, self, mean, std))


@converter("aten::uniform")
def uniform(g: Builder, self: Value, to: float = 1.0, **bounds: Any) -> Value:
    """aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    return uniform_like(g, self, bounds.get("from", 0.0), to)


@converter("aten::exponential")
def exponential(g: Builder, self: Value, lambd: float = 1.0, generator: object = None) -> Value:
    """aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    result = _exponential(g, self)
    return result if lambd == 1 else g.op("Div", result, float(lambd))


@converter("aten::geometric")
def geometric(g: Builder, self: Value, p: float, generator: object = None) -> Value:
    """aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    if p == 1:
        return emit.filled(g, g.outputs[0].shape, 1, self.dtype)
    return g.op("Ceil", g.op("Div", _exponential(g, self), -math.log1p(-p)))


@converter("aten::cauchy")
def cauchy(g: Builder, self: Value, median: float = 0.0, sigma: float = 1.0, generator: object = None) -> Value:
    """aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor"""
    bounds = {"low": -math.pi / 2, "high": math.pi / 2}
    angle = _drawn(g, "RandomUniform", g.outputs[0].shape, torch.float32, self, **bounds)
    return g.op("Add", g.op("Mul", g.op("Tan", angle), float(sigma)), float(median))


def _exponential(g: Builder, like: Value) -> Value:
    """Exponentially distributed numbers; the smallest normal number keeps the logarithm finite."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    drawn = _drawn(g, "RandomUniform", like.shape or (), dtype, like, low=SMALLEST_NORMAL, high=1.0)
    return g.cast(g.op("Neg", g.op("Log", drawn)), like.dtype if like.is_float else dtype)


@converter("aten::randperm")
def randperm(g: Builder, n: AnySize, **_: Any) -> Value:
    """aten::randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    shape = g.outputs[0].shape
    return emit.topk(g, _drawn(g, "RandomUniform", shape, torch.float32), shape[0], 0)[1]
