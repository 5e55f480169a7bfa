from __future__ import annotations

import re

import numpy as np
import pytest

from onnxport.optimize import FoldConstantTrees, RemoveDeadCode
from tests.optimize.harness import check, ops, parse

GENERATOR = np.random.default_rng(0)
WEIGHTS = {
    "w": GENERATOR.standard_normal((40, 40)).astype(np.float32),
    "a": GENERATOR.standard_normal((40, 2)).astype(np.float32),
    "b": GENERATOR.standard_normal((2, 40)).astype(np.float32),
}


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = MatMul(a, b)  u = Add(w, t)  y = MatMul(x, u)", ["MatMul"]),
        ("t = Transpose(w)  s = Tanh(t)  u = Add(w, s)  y = MatMul(x, u)", ["MatMul"]),
        ("t = MatMul(a, b)  y = MatMul(x, t)", ["MatMul", "MatMul"]),
        ("t = Tanh(w)  u = Add(t, w)  v = MatMul(x, u)  y = MatMul(v, w)", ["Tanh", "Add", "MatMul", "MatMul"]),
        ("t = Tanh(w)  u = Add(t, w)  v = MatMul(x, u)  y = MatMul(v, t)", ["Tanh", "Add", "MatMul", "MatMul"]),
    ],
    ids=["low-rank", "diamond", "grows", "weight-is-read", "step-is-read"],
)
def test_steps_are_taken_together_where_the_file_does_not_grow(body: str, left: list[str]) -> None:
    used = {name: WEIGHTS[name] for name in re.findall(r"\w+", body) if name in WEIGHTS}
    model = parse(f"g (float[n, 40] x) => (float[n, 40] y) {{ {body} }}", weights=used)
    assert check(model, FoldConstantTrees(), RemoveDeadCode(), exact=False) == left


def test_parameters_that_are_trained_stay() -> None:
    body = "t = MatMul(a, b)  u = Add(w, t)  y = MatMul(x, u)"
    model = parse(f"g (float[n, 40] x) => (float[n, 40] y) {{ {body} }}", weights=WEIGHTS)
    FoldConstantTrees(training=True)(model)
    assert ops(model) == ["MatMul", "Add", "MatMul"]
