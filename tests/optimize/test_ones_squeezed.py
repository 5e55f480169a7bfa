"""An If around Squeezes becomes one Squeeze, where that drops the same axes at every size."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxport.optimize.passes.runtime.ones_squeezed import SqueezeOnes
from tests.optimize.harness import ops, parse, run

TEXT = """
agraph (float[{shape}] x) => (float[n] y)
<int64 zero = {{0}}, int64 one = {{1}}, int64[{count}] more = {{{more}}}, int64[1] less = {{{less}}}>
{{
  s = Shape(x)
  n = Gather<axis = 0>(s, zero)
  c = Equal(n, one)
  y = If(c)<
    then_branch = then_body () => (float[{rest}] a) {{ {first} = Squeeze(x, more) {tail_a} }},
    else_branch = else_body () => (float[n] b) {{ {second} = Squeeze(x, less) {tail_b} }}
  >
}}
"""


def model(shape: str, more: str, less: str, tail: tuple[str, str] = ("", ""), rest: str = "") -> ir.Model:
    first, second = ("p", "q") if tail[0] else ("a", "b")
    tail_a, tail_b = (f"a = {tail[0]}(p)", f"b = {tail[1]}(q)") if tail[0] else ("", "")
    count = len(more.split(","))
    text = TEXT.format(
        shape=shape,
        more=more,
        less=less,
        count=count,
        first=first,
        second=second,
        tail_a=tail_a,
        tail_b=tail_b,
        rest=rest,
    )
    return parse(text, infer=False)


@pytest.mark.parametrize("tail", [("", ""), ("Sigmoid", "Sigmoid")])
@pytest.mark.parametrize(("shape", "more"), [("n, 1", "0, 1"), ("n, 1", "-1, -2")])
def test_an_if_is_one_squeeze(shape: str, more: str, tail: tuple[str, str]) -> None:
    found = model(shape, more, "1", tail)
    before = [run(found, {"x": x}) for x in inputs(2)]
    assert SqueezeOnes()(found).modified
    assert ops(found)[-1] == (tail[0] or "Squeeze") and "If" not in ops(found)
    for x, (expected,) in zip(inputs(2), before, strict=True):
        (result,) = run(found, {"x": x})
        assert result.shape == expected.shape and np.array_equal(result, expected)


@pytest.mark.parametrize(
    ("shape", "more", "rest", "tail"),
    [
        ("n, 1, m", "0, 1", "m", ("", "")),  # m may be 1 and is kept
        ("m, 1", "0, 1", "", ("Neg", "Abs")),  # the branches do something else
        ("n, 1, 1", "0, 1", "1", ("", "")),  # an axis of size 1 that is kept
    ],
)
def test_others_stay(shape: str, more: str, rest: str, tail: tuple[str, str]) -> None:
    found = model(shape, more, "1", tail, rest)
    assert not SqueezeOnes()(found).modified


def inputs(rank: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal((n, *[1] * (rank - 1))).astype(np.float32) for n in (1, 2, 5)]
