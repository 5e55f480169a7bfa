"""Greatest common divisors and least common multiples."""

from __future__ import annotations

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.inference.infer import broadcast
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value


@converter("aten::gcd")
def gcd(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::gcd(Tensor self, Tensor other) -> Tensor

    Euclid's algorithm in a Loop, until the pair with the most iterations is done.
    """
    dtype = g.outputs[0].dtype
    pair = [g.cast(x, torch.int64) for x in g.promoted(self, other, dtype=dtype)]
    shape = broadcast([x.shape for x in pair]) or ()
    if 0 in shape:
        return emit.filled(g, shape, 0, dtype)
    left, right = (emit.expand(g, g.op("Abs", x), shape) for x in pair)
    entries = [(torch.int64, ()), (torch.bool, ()), (torch.int64, shape), (torch.int64, shape)]

    def body(inner: Builder, given: list[Value]) -> list[Value]:
        _, _, larger, smaller = given
        ended = inner.op("Equal", smaller, 0)
        divisor = inner.op("Where", ended, larger, smaller)
        safe = inner.op("Max", divisor, 1)
        rest = inner.op("Where", ended, smaller, emit.modulo(inner, larger, safe))
        return [_any_left(inner, rest), divisor, rest]

    g.require(12, "the greatest common divisor")
    rounds = g.constant(emit.INT64_MAX, torch.int64)
    results = g.op("Loop", rounds, _any_left(g, right), left, right, outputs=2, body=g.subgraph("round", entries, body))
    return g.cast(g.typed(results[0], torch.int64, shape), dtype)


def _any_left(g: Builder, rest: Value) -> Value:
    return g.op("Greater", g.op("ReduceMax", rest, keepdims=0), 0)


@converter("aten::lcm")
def lcm(g: Builder, self: Operand, other: Operand) -> Value:
    """aten::lcm(Tensor self, Tensor other) -> Tensor"""
    dtype = g.outputs[0].dtype
    left, right = (g.cast(x, torch.int64) for x in g.promoted(self, other, dtype=dtype))
    divisor = g.op("Max", g.cast(gcd(g, self, other), torch.int64), 1)
    return g.cast(g.op("Abs", g.op("Mul", g.op("Div", left, divisor), right)), dtype)
